"""What the API says where it refuses something, and what pages say instead.

The API names its fields and values. A page says the same in the words that stand on it: `WORDING` has the page's
sentence for each of the API's that people come across. `%(name)s` stands for what differs. `frame.refusals` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from workhook.web.frame.api_amounts import OF_AMOUNTS, PHRASES_OF_AMOUNTS
from workhook.web.frame.api_fields import OF_A_FIELD
from workhook.web.frame.import_sentences import OF_IMPORTS
from workhook.web.frame.texts import text


def _unchanged(*sentences: str) -> dict[str, str]:
    """Sentences that are plain already."""
    return {each: each for each in sentences}


_OF_EVERY_PAGE = {
    "Not Found": text("This is not here, or you may not see it."),
    "Validation Failed": text("Check what you have entered."),
    "Problems parsing the form": text("The form cannot be read."),
    "The request body is larger than %(limit)s bytes.": text("The form is larger than %(limit)s bytes."),
    "You have opened %(number)s pages within an hour, which is the most. Wait %(wait)s min.": text(
        "You have opened %(number)s pages within an hour, which is the most. Wait %(wait)s minutes."
    ),
    "You have sent %(number)s forms within an hour, which is the most. Wait %(wait)s min.": text(
        "You have sent %(number)s forms within an hour, which is the most. Wait %(wait)s minutes."
    ),
    **_unchanged(
        text("You have been signed out. %(again)s"),
        text(
            "This form is out of date, or was not sent from a page of this server. Go back, reload the page and try "
            "again. If this is the right address: whoever runs the server sets base_url, or trust_proxy behind a proxy."
        ),
        text("There were too many %(what)s. Try again in %(wait)s."),
        text("The server has too many requests at once."),
        text("The server is stopping."),
        text("The database cannot be written."),
        text("An export of %(organization)s is running already. Wait until it is done, or end it."),
        text("The server makes other exports at this moment. Try again in some seconds."),
    ),
}

_OF_QUOTAS = {
    "An organization may have %(limit)s records (organization_max_rows), and has %(number)s: this is too much. "
    "Deleted things count until they have been in the trash for 30 days, and events until they are old enough to "
    "be removed. Delete what is not needed, or ask whoever runs the server for more.": text(
        "An organization may have %(limit)s records, and this one has %(number)s. "
        "What was deleted counts until it has been in the trash for 30 days, and events until they are old enough to "
        "be removed. Delete what you do not need, or ask your administrator for more."
    ),
    "An organization may have %(limit)s records (organization_max_rows): this is too much. "
    "Deleted things count until they have been in the trash for 30 days, and events until they are old enough to "
    "be removed. Delete what is not needed, or ask whoever runs the server for more.": text(
        "An organization may have %(limit)s records, and this one has no room for more. "
        "What was deleted counts until it has been in the trash for 30 days, and events until they are old enough to "
        "be removed. Delete what you do not need, or ask your administrator for more."
    ),
    "An organization's files and events may have %(limit)s MiB together (organization_max_mb), and %(number)s MiB are "
    "used: this does not fit. "
    "Deleted things count until they have been in the trash for 30 days, and events until they are old enough to "
    "be removed. Delete what is not needed, or ask whoever runs the server for more.": text(
        "An organization's files and events may have %(limit)s MiB together, and this one uses %(number)s MiB. "
        "What was deleted counts until it has been in the trash for 30 days, and events until they are old enough to "
        "be removed. Delete what you do not need, or ask your administrator for more."
    ),
    "An organization's files and events may have %(limit)s MiB together (organization_max_mb): this does not fit. "
    "Deleted things count until they have been in the trash for 30 days, and events until they are old enough to "
    "be removed. Delete what is not needed, or ask whoever runs the server for more.": text(
        "An organization's files and events may have %(limit)s MiB together, and this one has no room for that. "
        "What was deleted counts until it has been in the trash for 30 days, and events until they are old enough to "
        "be removed. Delete what you do not need, or ask your administrator for more."
    ),
}

_OF_RIGHTS = {
    "Must have admin rights to Repository.": text("Only admins of the project can do this."),
    "Must have %(role)s rights to Repository.": text("You need the role %(role)s in this project."),
    "You must be an organization owner.": text("Only owners of the organization can do this."),
    "You need the role admin in the project %(project)s to change `%(names)s`.": text(
        "Only admins of the project %(project)s can change this."
    ),
    **_unchanged(
        text("You need the role %(role)s in the project %(project)s."),
        text("You need the role admin in the project %(project)s to %(doing)s."),
        text("Clients cannot %(doing)s."),
        text("Clients can %(doing)s only what they made themselves."),
        text("Only an owner of %(owner)s can %(doing)s."),
        text("You may not invite anybody here any more."),
        text("On this server only owners of an organization invite people by e-mail address, and only to it."),
        text("You have sent %(number)s invitations by e-mail today. Try again tomorrow."),
        text("This address was sent %(number)s invitations today. Try again tomorrow, or send a link yourself."),
        text("This invitation is for somebody else."),
        text("A link was sent to you several times today. Look among spam, or try again tomorrow."),
        text("You are in already. The link stays good for whom it is meant for."),
    ),
}

_OF_WORK = {
    "The project is archived; unarchive it (archive: false) to change it.": text(
        "The project is archived. Take it out of the archive to change it."
    ),
    "name %(name)s is taken in %(owner)s": text("The address %(name)s is taken in %(owner)s. Choose another."),
    "%(field)s %(name)s is reserved for a page of the server; choose another": text(
        "%(name)s is reserved for a page of the server. Choose another."
    ),
    "a project has at most %(most)s columns": text("A project has at most %(most)s columns"),
    "start_timer cannot be true where tasks are completed (stage done, or finished)": text(
        "A column whose cards are finished cannot start a timer"
    ),
    "%(field)s: there is no such column in the task's project": text("The column must be one of this project"),
    "%(field)s: there is no such task in the task's project": text("The task must be one of this project"),
    **OF_AMOUNTS,
    "%(field)s: a task cannot be a subtask of itself": text("A task cannot be a subtask of itself"),
    "%(field)s: a subtask cannot have subtasks; name the task above it": text("A subtask cannot have subtasks"),
    "%(field)s: the task has subtasks, perhaps in the trash, so it cannot be one; move them first": text(
        "The task has subtasks, so it cannot be one"
    ),
    "%(field)s: a task has at most %(most)s subtasks, those in the trash included": text(
        "A task has at most %(most)s subtasks, those in the trash included"
    ),
    "%(field)s: a task cannot wait for itself": text("A task cannot wait for itself"),
    "%(field)s: these tasks would wait for one another: %(names)s": text(
        "These tasks would wait for one another: %(names)s"
    ),
    "%(field)s: there is no next time by this rule; give one that goes on, or null": text(
        "There is no next time by this rule. Choose one that goes on."
    ),
    "task_id: there is no such task in the file's project": text("The task must be one of this project"),
    "A comment can have %(most)s replies with %(chars)s characters together. Add a comment to the file instead.": text(
        "A comment can have %(most)s replies with %(chars)s characters together. Add a comment to the file instead."
    ),
    "The folder holds files; delete them first.": text("The folder holds files. Delete them first."),
    "folder must be one of the project": text("The folder must be one of this project"),
    "The tasks have too much text to be changed in one request; change fewer at once.": text(
        "The tasks have too much text to be changed together. Choose fewer."
    ),
    "%(field)s: nobody of this name sees the project: %(names)s": text(
        "Nobody of this name sees the project: %(names)s"
    ),
    "%(thing)s: others have worked on it, so a client cannot delete it; ask a member of the team to delete it.": text(
        "Others have worked on it, so clients cannot delete it. Ask a member of the team to delete it."
    ),
    **_unchanged(
        text("The last column of a project stays."),
        text("A file may have at most %(most)s MiB."),
        text("The project %(project)s was deleted while it was imported."),
    ),
}

_OF_TIME = {
    "start_time of a timer that is not finished must not be in the future": text(
        "The start of a timer that runs must not be in the future"
    ),
    "start_time is required with end_time, unless there is a duration": text("Enter a start or a duration, too."),
    "end_time must not be before start_time": text("The end must not be before the start"),
    "a timesheet spans at most %(days)s days": text("The time must span at most %(days)s days"),
    "start_time and end_time must be from 1970 to 9998": text("Start and end must be from 1970 to 9998"),
    "duration must not be more than the time from start_time to end_time": text(
        "The duration must not be more than the time from start to end"
    ),
    "task_id must be a task of the project": text("The task must be one of this project"),
    "The timesheet is finished; a finished one is not opened again.": text(
        "The timer is finished and cannot be opened again."
    ),
    "The timesheet is on the draft invoice %(invoice)s; remove it there first, then it can be %(what)s.": text(
        "The entry is on a draft invoice. Remove it there first."
    ),
    "The timesheet is on invoice %(invoice)s; void or credit that first, then it can be %(what)s.": text(
        "The entry is on invoice %(invoice)s. Void or credit that first."
    ),
    "The user has another timer running, which you cannot pause; the user has to pause it first.": text(
        "The person has another timer running, which you cannot pause. They have to pause it first."
    ),
    "The user of this timer can no longer write to the project, so that the timer stays as it is.": text(
        "The person of this timer can no longer write to the project, so the timer stays as it is."
    ),
}

_OF_BILLING = {
    "task_id is required of a spend": text("Choose the task that the credits pay for."),
    "task_id: the project has no such task": text("The task must be one of this project"),
    "expires_at must be in the future": text("The last day must be today or later"),
    "amount must leave the balance at %(most)s or less": text("The balance must not become more than %(most)s"),
    "service_id %(service)s is no active service of the project's owner": text(
        "This service is not on offer any more."
    ),
    "service_price_id %(price)s is no price of the service": text("This price is not on offer any more."),
    "qty must be 1: the service is sold one at a time": text("The service is sold one at a time"),
    "qty must be less: an invoice is at most %(most)s before tax": text(
        "Choose a smaller number: an invoice is at most %(most)s before tax"
    ),
    "qty must be less: a grant is at most %(most)s credits": text(
        "Choose a smaller number: a period brings at most %(most)s credits"
    ),
    "The service does not let its checkouts be paused.": text("Subscriptions to this service cannot be paused."),
    "The service lets a checkout be paused %(number)s times, which it was.": text(
        "The subscription can be paused at most %(number)s times."
    ),
    "The service cannot be canceled in its first %(number)s months.": text(
        "The subscription cannot be canceled in its first %(number)s months."
    ),
    "The checkout is pending: complete it first, or delete it.": text("Start the subscription first, or delete it."),
    "The checkout is canceled.": text("The subscription is canceled."),
    "The invoice is void; everything stays as it is.": text("The invoice is void. It stays as it is."),
    "The invoice is %(status)s; what its amounts follow from, its parties and its number stay as they are.": text(
        "The invoice was issued. Its amounts, its parties and its number stay as they are."
    ),
    "The invoice is %(status)s; it would have to be %(wanted)s.": text(
        "This cannot be done with the invoice any more. Reload the page to see its state."
    ),
    "The project has issued invoices (%(numbers)s), so it cannot be deleted; archive it instead (archive: true).": text(
        "The project has issued invoices (%(numbers)s), so it cannot be deleted. Archive it instead."
    ),
    "The service is on issued invoices (%(numbers)s), so it cannot be deleted; deactivate it instead "
    "(active: false).": text(
        "The service is on issued invoices (%(numbers)s), so it cannot be deleted. Take it off offer instead."
    ),
    "%(task)s is on issued invoices (%(numbers)s), so it cannot be deleted; leave it in a column of finished tasks, or "
    "archive the project (archive: true).": text(
        "The task is on issued invoices (%(numbers)s), so it cannot be deleted. Leave it in a column of finished "
        "tasks, or archive the project."
    ),
    "The file is the logo of issued invoices (%(numbers)s), so it cannot be %(verb)s; give the project another avatar "
    "first.": text(
        "The file is the logo of issued invoices (%(numbers)s), so it stays as it is. Give the project another picture "
        "first."
    ),
    "invoice_items: the sum is more than an invoice can have": text("The sum is more than an invoice can have"),
    "%(field)s: the texts of the invoice would be %(chars)s characters together; at most %(most)s can be printed. "
    "Shorten them, or make several invoices": text(
        "The texts of the invoice would have %(chars)s characters together. At most %(most)s can be printed. Shorten "
        "them, or make several invoices."
    ),
    "invoice_number: %(number)s is the number of another invoice": text("%(number)s is the number of another invoice"),
    "The invoice is %(status)s; send it first.": text("Issue the invoice first."),
    "The invoice is %(status)s; it owes nothing any more.": text("The invoice is void. Nothing is due on it."),
    "tax_category: a tax that is %(category)s has 0 percent; leave out one of both": text(
        "Only what is taxed has a percentage. Leave it empty, or choose another kind of tax."
    ),
    "seller.vat_id: an invoice with reverse_charge needs it; set vat_id in %(where)s first": text(
        "An invoice with reverse charge needs your VAT id. An owner sets it in the settings, under Billing."
    ),
    "buyer.vat_id: an invoice with reverse_charge needs it; set buyer.vat_id in %(where)s first": text(
        "An invoice with reverse charge needs the VAT id of who pays. Set it in the settings of the project, under "
        "Billing."
    ),
    "seller.timezone: this server does not know %(zone)s; set timezone in %(where)s to one that it knows first": text(
        "This server does not know the time zone %(zone)s. An owner chooses another one in the settings, under Billing."
    ),
    "The invoice is %(status)s; credit it instead (credit_notes).": text("The invoice is paid. Credit it instead."),
    "Something was paid on the invoice; give it back first (refund).": text(
        "Something was paid on the invoice. Give it back first."
    ),
    "The invoice has credit notes; credit the rest of it instead.": text(
        "The invoice has credit notes. Credit the rest of it instead."
    ),
    "%(field)s: %(amount)s is due; it can be that or less": text("%(amount)s is due. Enter that or less."),
    "%(field)s: at %(rate)s before tax, %(amount)s is not credited yet; it can be that or less": text(
        "At %(rate)s before tax, %(amount)s is not credited yet. Enter that or less."
    ),
    "%(field)s: at %(rate)s, %(amount)s is not credited yet; it can be that or less": text(
        "At %(rate)s, %(amount)s is not credited yet. Enter that or less."
    ),
    "invoice_items: the lines come to nothing; a credit note takes something back": text(
        "Enter an amount of more than 0."
    ),
    "%(field)s: %(amount)s is not credited yet; it can be that or less": text(
        "%(amount)s is not credited yet. Enter that or less."
    ),
    "amount: %(amount)s is left of the payment; give back that or less": text(
        "%(amount)s is left of the payment. Enter that or less."
    ),
    "paid_at is more than a day ahead; book a payment when it has come": text(
        "This is more than a day ahead. Book it when it has happened."
    ),
    "The invoice has %(number)s payments and credit notes; leave out the amount to book all that is left.": text(
        "The invoice has %(number)s payments and credit notes. Book all that is left at once."
    ),
    "The invoice has %(number)s payments and credit notes; credit the rest of it instead.": text(
        "The invoice has %(number)s payments and credit notes. Credit the rest of it instead."
    ),
    "invoice_items: the invoice has no lines; add some before it is sent": text("Add its lines first."),
    **_unchanged(
        text("Nothing is due on the invoice."),
        text("All of the invoice is credited."),
        text("All of the invoice at %(rate)s is credited."),
        text("All of the payment was given back."),
        text("This is a refund; only a payment can be given back."),
        text("The balance is %(have)s; %(want)s cannot be spent."),
        text("Only grants and spends can be reversed."),
        text("Some of this grant was spent or has expired."),
        text("Only drafts can be deleted."),
        text("Too many invoices wait to be printed. Try again in some seconds."),
        text("The invoice cannot be printed. The server's log says why."),
    ),
}

_OF_PEOPLE_AND_APPS = {
    "login %(login)s is taken": text("The login %(login)s is taken. Choose another."),
    "login must be 1 to 39 letters, digits and single hyphens": text(
        "The login must have 1 to 39 letters, digits and single hyphens"
    ),
    "username %(login)s: there is no such user": text("There is nobody with the login %(login)s"),
    "username %(login)s is a client of the project; remove the client first": text(
        "%(login)s is a client of the project. Remove the client first."
    ),
    "The invited person is in the organization already": text("This person is in the organization already"),
    "%(app)s is installed here already": text("%(app)s is installed here already"),
    "there is an app %(app)s already": text("There is an app %(app)s already. Choose another name."),
    "app must be the slug or client id of an app that is public or the organization's own": text(
        "There is no such app that this organization can install"
    ),
    "the app is installed on other organizations: it cannot become private": text(
        "Other organizations have installed the app, so it must stay open to them"
    ),
    "this is the app's last key: add another one first": text("This is the app's last key. Add another one first."),
    "the app has this key already": text("The app has this key already"),
    "an app has at most %(most)s keys: delete one that is not used any more first": text(
        "An app has at most %(most)s keys. Delete one that is not used any more first."
    ),
    "an app has at most %(most)s secrets: delete the one that is not used any more first": text(
        "An app has at most %(most)s secrets. Delete the one that is not used any more first."
    ),
    "%(owner)s has no repository %(name)s": text("%(owner)s has no project %(name)s"),
    "repositories must name 1 to %(most)s repositories": text("Choose 1 to %(most)s projects."),
    "No app has this client_id. The address that brought you here is wrong or out of date.": text(
        "There is no such app. The address that brought you here is wrong or out of date."
    ),
    "name must have 1 to %(most)s printable characters, no space at its ends": text(
        "The name must have 1 to %(most)s printable characters, and no space at its ends"
    ),
    "name must have a letter or digit of ASCII, and at most %(most)s characters written in ASCII": text(
        "The name must have a letter from a to z or a digit, and at most %(most)s characters when written with these"
    ),
    "description must have at most %(most)s characters, none of them NUL": text(
        "The description must have at most %(most)s characters, none of them NUL"
    ),
    "homepage_url must be an http or https URL of at most %(most)s characters": text(
        "The home page must be an address with http:// or https:// and at most %(most)s characters"
    ),
    "callback_urls must have at least one URL, unless the app uses the device flow": text(
        "Enter at least one callback address, unless people sign in on another device."
    ),
    "callback_urls may have at most %(most)s URLs": text("There may be at most %(most)s callback addresses"),
    "callback_urls: %(address)s must have at most %(most)s characters": text(
        "%(address)s must have at most %(most)s characters"
    ),
    "callback_urls: %(address)s must have no fragment": text("%(address)s must have no part behind a #"),
    "callback_urls: %(address)s must have no wildcard: name each URL": text(
        "%(address)s must have no *. Enter each address."
    ),
    "callback_urls: %(address)s must be an absolute URL in which other characters are percent-encoded": text(
        "%(address)s must be a whole address, in which other characters are percent-encoded"
    ),
    "callback_urls: %(address)s must name no user or password": text("%(address)s must name no user or password"),
    "callback_urls: %(address)s must begin with https:// (http:// only for 127.0.0.1, [::1] and localhost)": text(
        "%(address)s must begin with https:// (http:// only for 127.0.0.1, [::1] and localhost)"
    ),
    **_unchanged(
        text("%(login)s is here through %(owner)s, and was not added to the project."),
        text("%(login)s is the last owner of %(organization)s"),
        text(
            "%(login)s is the last owner of %(organization)s who is not disabled; make somebody else an owner "
            "first, or delete the organization"
        ),
        text("%(login)s is the last administrator who is not disabled; make somebody else one first"),
        text(
            "%(login)s has projects of their own (%(projects)s): delete them, and wait until they have left the trash, "
            "or have the account disabled"
        ),
        text(
            "%(place)s has %(number)s invitations that nobody has accepted yet, and can have no more: take some back, "
            "or wait until they are accepted or end, %(days)s days after they were made"
        ),
        text("The password needs at least %(least)s characters."),
        text("The password can have at most %(most)s characters."),
        text("The password holds something that is no character."),
        text("This password is among the first that anybody would try."),
        text("The password must not be your login, name or e-mail address, or the name of this product."),
        text("Too many people are signing in at this moment. Try again in some seconds."),
        text("The identity provider cannot be reached. Try again, or sign in with your password."),
        text("The identity provider is not set up as this server expects."),
        text("This code has expired or was decided on already. Let the device show a new one."),
        text("The address names no app."),
        text("An owner of %(owner)s has suspended this installation."),
    ),
}

_OF_WEBHOOKS = {
    "Hook already exists on this %(place)s": text(
        "Another webhook already sends one of these events to this address. Choose other events, or change that "
        "webhook."
    ),
    "url cannot be blank": text("Enter the address of the receiver."),
    "The URL you've entered is not valid. Please make sure that you encode all special characters first": text(
        "The address is not valid. All special characters in it must be encoded."
    ),
    "url is not supported because it isn't reachable over the public Internet (%(host)s). To deliver to a private "
    "network, start the server with --allow-network.": text(
        "The address cannot be used, because it is not reachable over the public Internet (%(host)s). To deliver to a "
        "private network, whoever runs the server starts it with --allow-network."
    ),
    'The "%(event)s" event cannot have more than %(most)s hooks': text(
        "There are %(most)s webhooks for the event %(event)s already, which is the most"
    ),
    'Unknown event "%(event)s". List events with GET /webhook-events; publish your own with POST …/dispatches.': text(
        "There is no event %(event)s"
    ),
    'Only webhooks of %(places)s can name the event "%(event)s".': text("No webhook here gets the event %(event)s"),
    'No webhook can name the event "%(event)s". One with the event "*" gets it.': text(
        "Only webhooks for every event get the event %(event)s"
    ),
    "url must begin with http:// or https://": text("The address must begin with http:// or https://."),
    "url must not contain a user name, password or token. Send them as username and password of the configuration; "
    "they become an Authorization header.": text(
        "The address must not contain a user name, password or token. Enter them under Advanced."
    ),
    "%(name)s is ********, which stands for a stored %(what)s, and none is stored. Send the %(it)s itself or leave it "
    "out.": text("Enter the value itself: ******** stands for a stored one, and none is stored."),
    "secret must be whsec_ and a key in base64 where header_style is standard": text(
        "With the headers of Standard Webhooks the secret must be whsec_ and a key in Base64"
    ),
    "password must be sent again when the url names another server": text(
        "Enter the password again, because the address is another server's."
    ),
    "%(field)s goes with a new secret": text("%(field)s: choose it together with a new secret"),
    "status must be success or failure": text("The outcome must be succeeded or failed"),
    **_unchanged(
        text("The right to have webhooks here was taken away."),
        text("The receiver answered 410 Gone."),
        text("Every delivery has failed for five days."),
        text("Nobody who authorizes the app may have webhooks here any more."),
        text("Nobody who may have webhooks here authorizes the app any more."),
        text("Invalid HTTP Response: %(code)s"),
        text("TLS error"),
        text("TLS error: %(error)s"),
        text("timed out"),
        text("failed to connect to host"),
        text("failed to connect to network"),
        text("connection closed before a response"),
        text("malformed response"),
        text("address not allowed"),
        text("payload too large, not sent"),
        text("delivery failed"),
    ),
}
"""Also why one is off, and what became of a delivery."""

WORDING: Mapping[str, str] = {
    **_OF_EVERY_PAGE,
    **_OF_QUOTAS,
    **_OF_RIGHTS,
    **_OF_WORK,
    **OF_IMPORTS,
    **_OF_TIME,
    **_OF_BILLING,
    **_OF_PEOPLE_AND_APPS,
    **_OF_WEBHOOKS,
    **OF_A_FIELD,
}
"""The page's sentence by that of the API. Of several that fit, the one with the most text of its own is taken."""

PHRASES = (
    *PHRASES_OF_AMOUNTS,
    text("Sign in again."),
    text("Sign in and open the page again."),
    text("Start again from the app."),
    text("failed attempts to sign in"),
    text("links that are not good"),
    text("%(number)s seconds"),
    text("%(number)s minutes"),
)
"""Parts of sentences: what `%(what)s`, `%(wait)s` and `%(again)s` stand for."""
