"""Creates the objects of requests through the API. Each call creates a new object and returns its name in paths."""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.harness.waiting import until
from tests.recorded.recorder import Recorder

FULL = {"repository_hooks": "write", "organization_hooks": "write", "work": "write"}
CALLBACK = "http://127.0.0.1:9/back"
SCOPES = "admin:org,admin:org_hook,admin:repo_hook,repo,work"


class Things:
    """An organization, its owner, two users outside it, an OAuth app, and an app that is installed there."""

    def __init__(self, recorder: Recorder, receiver: str, made: dict[str, Any]) -> None:
        """`made` is the result of `people`."""
        self.recorder, self.receiver = recorder, receiver
        self.numbers = itertools.count(1)
        self.by = {who: f"Bearer {made[who]['token']}" for who in ("owner", "pat", "stranger")}
        self.project_id: str = made["owner"]["project_id"]
        self.project = f"/api/v1/projects/{self.project_id}"
        self.key = rsa.generate_private_key(65537, 2048)
        org = self.get("/orgs/acme")
        self.fixed: dict[str, Any] = {
            "org": "acme", "owner": "acme", "repo": "website", "username": "octo", "login": "acme",
            "organization_id": org["id"], "account_id": org["id"],
            "repository_id": self.get("/repos/acme/website")["id"],
        }  # fmt: skip
        self.hook = self.post("/orgs/acme/hooks", name="web", events=["*"], config=self._config("all"))
        oauth = self.post("/orgs/acme/oauth-apps", name="Viewer", callback_urls=[CALLBACK], device_flow=True)
        self.oauth = oauth["client_id"], oauth["client_secret"]
        self.app = self.new_app()
        link = urlsplit(made["link"]["url"])
        self.browser = Browser(recorder, link.path)
        self.by |= {
            "client": basic(*self.oauth),
            "client of the app": basic(self.app["client_id"], self.app["client_secret"]),
            "app": f"Bearer {self.jwt(self.app)}",
        }

    @staticmethod
    def people(run: Callable[..., Any]) -> dict[str, Any]:
        """Create what only commands can create: users, their first tokens, and a sign-in link.

        `run` returns the JSON output of a command.
        """
        owner = ("--organization", "acme", "--owner", "octo", "--email", "octo@example.com", "--project", "Website")
        made = {"owner": run("setup", *owner)}

        def token(login: str, scopes: str) -> Any:
            return run("token", "create", "--user", login, "--kind", "classic", "--scopes", scopes)

        made["owner"]["token"] = token("octo", f"{SCOPES},site_admin")["token"]
        for who in ("pat", "stranger"):
            run("user", "add", "--login", who, "--email", f"{who}@example.com")
            made[who] = token(who, SCOPES)
        made["link"] = run("user", "sign-in-link", "--login", "octo")
        return made

    # --- requests ------------------------------------------------------------------------------------------------

    def send(self, method: str, path: str, by: str = "owner", **more: Any) -> httpx.Response:
        return self.recorder.ask(method, path, "prepare", self.by[by], **more)

    def succeed(self, method: str, path: str, by: str = "owner", **more: Any) -> Any:
        """Send a request that must succeed, and return its JSON response."""
        return _checked(self.send(method, path, by, **more))

    def get(self, path: str, by: str = "owner") -> Any:
        return self.succeed("GET", path, by)

    def post(self, path: str, by: str = "owner", **body: Any) -> Any:
        return self.succeed("POST", path, by, json=body)

    def made(self, noun: str, path: str, **more: Any) -> Any:
        """Create a record and return its ID."""
        answer = self.succeed("POST", path if path.startswith("/api") else f"/api/v1{path}", **more)
        return answer.get(noun, answer)["id"]

    def until(self, path: str, done: Any) -> Any:
        """Wait until the response to a GET satisfies `done`, and return it. Earlier responses are not recorded."""

        def look() -> Any:
            answer = self.recorder.look(path, self.by["owner"]).json()
            return answer if done(answer) else None

        return until(look)

    # --- work management -----------------------------------------------------------------------------------------

    def new_project(self) -> str:
        return str(self.made("project", "/projects", json={"title": "Other", "organization": "acme"}))

    def column(self) -> str:
        return str(self.made("column", f"{self.project}/columns", json={"title": "To do"}))

    def task(self) -> str:
        return str(self.made("task", f"/columns/{self.column()}/tasks", json={"title": "Task"}))

    def task_comment(self) -> int:
        return int(self.made("task_comment", f"/tasks/{self.task()}/task_comments", json={"text": "Said"}))

    def file(self) -> str:
        return str(self.made("file", f"{self.project}/files", files={"file": ("a.txt", b"a file", "text/plain")}))

    def folder(self) -> str:
        return str(self.made("folder", f"{self.project}/folders", json={"title": "Folder"}))

    def file_comment(self) -> int:
        return int(self.made("file_comment", f"/files/{self.file()}/file_comments", json={"text": "Said"}))

    def reply(self, comment_id: int) -> int:
        return int(self.made("comment", f"/file_comments/{comment_id}/comments", json={"body": "Answered"}))

    def timesheet(self, *, duration: int | None = 3_600_000) -> str:
        """Create a time entry, which runs if it has no duration."""
        body = {
            "task_id": self.task(),
            **({"duration": duration, "billable": True, "billable_rate": 80} if duration else {}),
        }
        return str(self.made("timesheet", f"{self.project}/timesheets", json=body))

    def service(self) -> str:
        price = {"amount": 100, "currency": "EUR", "interval": "month", "credits": 5}
        body = {"title": "Care", "organization": "acme", "service_prices": [price]}
        return str(self.made("service", "/services", json=body))

    def checkout(self) -> str:
        return str(
            self.made("service_checkout", f"{self.project}/service_checkouts", json={"service_id": self.service()})
        )

    def credit(self) -> str:
        return str(self.made("task_credit", f"{self.project}/task_credits", json={"amount": 5}))

    def invoice(self) -> str:
        items = [{"description": "Work", "qty": 2, "unit_price": 10.5}]
        return str(self.made("invoice", f"{self.project}/invoices", json={"invoice_items": items}))

    def name_parties(self) -> None:
        """Name seller and buyer as an e-invoice requires it."""
        seller = {"country": "DE", "vat_id": "DE123456789"}
        self.succeed("PATCH", "/api/v1/organizations/acme/billing", json=seller)
        self.succeed("PATCH", f"{self.project}/billing", json={"buyer": {"name": "Client AG", "country": "AT"}})

    def payment(self) -> str:
        return self._booked("payment", "payments", amount=1)

    def credit_note(self) -> str:
        return self._booked("credit_note", "credit_notes", total=1, reason="Late")

    def _booked(self, noun: str, path: str, **body: Any) -> str:
        invoice = self.invoice()
        self.after(f"/invoices/{invoice}", ("POST", "/send"))
        return str(self.made(noun, f"/invoices/{invoice}/{path}", json=body))

    def client(self) -> str:
        answer = self.post(f"{self.project}/clients", email="pat@example.com")
        if answer["client"] is None:
            self.succeed("PATCH", f"/user/repository_invitations/{answer['invitation']['id']}", "pat")
            answer = self.post(f"{self.project}/clients", email="pat@example.com")
        return str(answer["client"]["id"])

    def after(self, path: str, *steps: tuple[str, str]) -> None:
        """Send the steps, each given as a method and what is appended to the path."""
        for method, ending in steps:
            self.succeed(method, f"/api/v1{path}{ending}")

    # --- webhooks ------------------------------------------------------------------------------------------------

    def _config(self, name: str) -> dict[str, str]:
        address = f"{self.receiver}/{name}-{next(self.numbers)}"
        return {"url": address, "content_type": "json", "secret": "a secret", "max_concurrency": "1", "retries": "0"}

    def new_hook(self, place: str, by: str = "owner") -> int:
        """Create a webhook with a delivery, its ping."""
        body = {"name": "web", "events": ["status"], "config": self._config("one")}
        hook = int(self.post(f"{place}/hooks", by, **body)["id"])
        if by == "owner":
            self.until(f"{place}/hooks/{hook}/deliveries", lambda found: len(found) == 1)
        return hook

    def delivery(self, place: str, hook: int) -> int:
        return int(self.get(f"{place}/hooks/{hook}/deliveries")[0]["id"])

    def redelivery(self, place: str, hook: int) -> int:
        one = f"{place}/hooks/{hook}"
        job = int(self.post(f"{one}/deliveries/redeliver", ids=[self.delivery(place, hook)])["job"]["id"])
        self.until(f"{one}/deliveries", lambda found: len(found) == 2)
        self.until(f"{one}/redeliveries/{job}", lambda found: found["state"] == "done")
        return job

    # --- users ---------------------------------------------------------------------------------------------------

    def newcomer(self) -> str:
        """Create a user as an administrator."""
        login = f"newcomer-{next(self.numbers)}"
        self.succeed("POST", "/admin/users", json={"login": login, "email": f"{login}@example.com"})
        return login

    def new_place(self) -> str:
        """Create an empty organization of the owner."""
        login = f"place-{next(self.numbers)}"
        self.succeed("POST", "/admin/organizations", json={"login": login, "admin": "octo"})
        return login

    def outside(self) -> str:
        """Remove pat from everything."""
        self.send("DELETE", "/orgs/acme/memberships/pat")
        self.send("DELETE", "/repos/acme/website/collaborators/pat")
        return "pat"

    def asked_to_join(self) -> str:
        self.outside()
        self.succeed("PUT", "/orgs/acme/memberships/pat", json={"role": "member"})
        return "pat"

    def member(self) -> str:
        self.asked_to_join()
        self.succeed("PATCH", "/user/memberships/orgs/acme", "pat", json={"state": "active"})
        return "pat"

    def collaborator(self) -> str:
        self.member()
        self.succeed("PUT", "/repos/acme/website/collaborators/pat", json={"permission": "push"})
        return "pat"

    def work_invitation(self) -> int:
        self.outside()
        body = {"permission": "push"}
        return int(self.succeed("PUT", "/repos/acme/website/collaborators/pat", json=body)["id"])

    def notification(self) -> int:
        """Return the ID of a notification about an invitation, for the invited user."""
        self.work_invitation()
        listed = self.succeed("GET", "/api/v1/me/notifications", "pat")
        return int(listed["notifications"][0]["id"])

    def invitation(self) -> int:
        return int(self.post("/orgs/acme/invitations", email=f"new-{next(self.numbers)}@example.com")["id"])

    # --- tokens and apps -----------------------------------------------------------------------------------------

    def token(self) -> int:
        return int(self.post("/user/tokens", note="Spare")["id"])

    def new_oauth_app(self) -> str:
        return str(
            self.post("/orgs/acme/oauth-apps", name=f"Reader {next(self.numbers)}", callback_urls=[CALLBACK])[
                "client_id"
            ]
        )

    def new_app(self) -> dict[str, Any]:
        pem = self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        name, permissions = f"Robot {next(self.numbers)}", FULL
        app: dict[str, Any] = self.post(
            "/orgs/acme/apps", name=name, permissions=permissions, callback_urls=[CALLBACK], public_key=pem.decode()
        )
        return app

    def install(self, app: dict[str, Any], **more: Any) -> int:
        return int(self.post("/orgs/acme/installations", app=app["slug"], **more)["id"])

    def installed(self) -> int:
        """Install a new app."""
        return self.install(self.new_app())

    def own_installation(self) -> int:
        """Return the installation of the requesting app. It is installed again if it was uninstalled."""
        installed = self.send("GET", "/app/installations", "app").json()
        return int(installed[0]["id"]) if installed else self.install(self.app)

    def on_chosen(self) -> int:
        """Install a new app on only two repositories."""
        self.new_project()
        names = [each["name"] for each in self.get("/orgs/acme/repos")][:2]
        return self.install(self.new_app(), repository_selection="selected", repositories=names)

    def newest(self, path: str) -> int:
        """Create a secret or key of an app."""
        return int(self.post(path)["id"])

    def jwt(self, app: dict[str, Any]) -> str:
        now = int(time.time())
        parts = ({"alg": "RS256", "typ": "JWT"}, {"iat": now - 60, "exp": now + 540, "iss": str(app["id"])})
        head = ".".join(_url_safe(json.dumps(each).encode()) for each in parts)
        return f"{head}.{_url_safe(self.key.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def renew_tokens(self) -> None:
        """Renew the app's tokens: one of its installation and one of the owner."""
        made = self.post(f"/app/installations/{self.own_installation()}/access_tokens", "app")
        self.by["installation"] = f"Bearer {made['token']}"
        self.by["app_user"] = f"Bearer {self.new_user_token((self.app['client_id'], self.app['client_secret']))}"

    def new_user_token(self, credentials: tuple[str, str]) -> str:
        """Create a token of the app for the owner through the consent page."""
        client_id, secret = credentials
        code = self.browser.consent(client_id)
        body = {"client_id": client_id, "client_secret": secret, "code": code}
        headers = {"Accept": "application/json"}
        answer = self.recorder.ask("POST", "/login/oauth/access_token", "prepare", headers=headers, json=body)
        return str(_checked(answer)["access_token"])


class _Form(HTMLParser):
    """The fields of the first form on a page other than the sign-out form."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.action, self._current = "", ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "form":
            self._current = given.get("action") or ""
        elif tag == "input" and given.get("name") and self._current != "/logout":
            self.action = self.action or self._current
            self.fields[str(given["name"])] = given.get("value") or ""


class Browser:
    """The owner's browser, signed in by a link. Its pages are recorded."""

    def __init__(self, recorder: Recorder, link: str) -> None:
        self._recorder, self._cookies = recorder, httpx.Cookies()
        self.submit(link, link)

    def page(self, method: str, path: str, **more: Any) -> httpx.Response:
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        response = self._recorder.ask(method, path, "page", headers={"Cookie": cookie} if cookie else {}, **more)
        self._cookies.update(response.cookies)
        return response

    def submit(self, path: str, otherwise: str = "", **fields: str) -> httpx.Response:
        """Submit the page's form, to `otherwise` if the form has no action."""
        form = _Form(self.page("GET", path).raise_for_status().text)
        return self.page("POST", form.action or otherwise, data={**form.fields, **fields})

    def consent(self, client_id: str) -> str:
        """Approve the client and return its code."""
        scope = "prompt=select_account&scope=work+admin:org_hook"
        answer = self.submit(f"/login/oauth/authorize?client_id={client_id}&{scope}", decision="approve")
        return parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]


def _checked(response: httpx.Response) -> Any:
    if response.is_error:
        raise RuntimeError(f"{response.request.method} {response.url}: {response.status_code} {response.text}")
    return response.json() if response.content else None


def basic(client_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


def _url_safe(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
