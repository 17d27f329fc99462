"""The demo project besides its board: a complete task, files, time entries, invoices, apps and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import typst

from tests.browser.people import Insider
from tests.harness.clients import become_client
from tests.harness.server import Server
from tests.pictures.people import CLIENT, ORGANIZATION, call, make

TASK = "Ticket shop: seat map on phones"
DESCRIPTION = """Visitors choose their seats **on the phone**, often in the queue at the harbor gate.

- pinch and drag the map; a tap chooses a seat
- show the price *before* the seat is in the basket

| Stage | Seats | Price |
| --- | ---: | ---: |
| Pier | 420 | 38.00 |
| Old dock | 180 | 52.00 |

> The map must work with one thumb.
"""
SECTIONS = {
    "Before the client sees it": {
        "Pinch and drag": "complete",
        "Seat colors": "complete",
        "Legend": "incomplete",
    },
    "Before it goes live": {"Try it with a screen reader": "incomplete", "Load test with 400 seats": "incomplete"},
}
COMMENTS = [
    ("mei", "Pinch works. @jonas, can you look at the *legend*?", False),
    ("jonas", "Yes, this afternoon. @ada, can it go below the map?", False),
    ("ada", "The budget is used up. Anything more needs a new quote.", True),
    ("ines", "It looks great on my old phone, too. Thank you!", False),
]
_POSTER = """#set page(width: 320pt, height: 420pt, margin: 0pt, fill: rgb("#12324a"))
#place(dx: 70pt, dy: 60pt, circle(radius: 90pt, fill: rgb("#f2a65a")))
#place(dy: 215pt, rect(width: 100%, height: 205pt, fill: rgb("#1d5a73")))
#for n in range(5) { place(dx: -30pt + n * 80pt, dy: 205pt, circle(radius: 45pt, fill: rgb("#1d5a73"))) }
#place(dx: 30pt, dy: 290pt, text(size: 34pt, fill: white, weight: "bold")[HARBOUR \\ FESTIVAL])
#place(dx: 30pt, dy: 380pt, text(size: 14pt, fill: rgb("#f2a65a"))[Three days on the water])"""
_PROGRAM = """#set page(paper: "a5", margin: 40pt)
= Program
== Friday, Pier stage
#table(columns: (1fr, 3fr), [18:00], [Opening with the harbor choir], [19:30], [The Tidewatchers],
  [21:00], [Fireworks over the old dock])
== Saturday, Old dock
#table(columns: (1fr, 3fr), [11:00], [Boat parade], [14:00], [Children's regatta], [20:00], [Night market])"""
_NOTES = (
    b"Minutes of the kick-off\n\n- Ines decides about prices.\n- Tickets go on sale in May.\n- One poster per stage.\n"
)

# Days before today, login, duration in minutes, notes, and title of the task.
TIME = [
    (1, "mei", 195, "Seat map: pinch and drag", TASK),
    (1, "jonas", 90, "Filters", "Program page: filter by stage and day"),
    (2, "ada", 120, "Motifs one and two", "Poster series: three motifs"),
    (2, "mei", 240, "Seat map: colors", TASK),
    (3, "sam", 75, "First draft", "Newsletter: early-bird tickets"),
    (3, "jonas", 150, "Footer", "Sponsor logos in the footer"),
    (4, "mei", 180, "Keyboard, labels", "Accessibility check of the booking steps"),
    (5, "ada", 60, "Call with Ines", "Poster series: three motifs"),
    (6, "jonas", 210, "Sketches", "Program page: filter by stage and day"),
    (7, "sam", 90, "Terms, English", "Translate the ticket terms"),
    (8, "mei", 300, "Seat map: first version", TASK),
    (9, "ada", 150, "Three sketches", "Poster series: three motifs"),
    (10, "jonas", 120, "Records and mail", "Domain and certificates"),
]
RATES = {"ada": 95, "jonas": 80, "mei": 80, "sam": 70}


@dataclass
class Filler:
    """Fills a project with the accounts of the studio's people. `names` collects the values for paths."""

    server: Server
    api: httpx.Client  # of the owner
    project: str
    people: dict[str, Insider]
    tasks: dict[str, str]  # IDs by title
    names: dict[str, str]

    def fill(self) -> None:
        self._invite_client()
        self._fill_task()
        self._add_files()
        self._spend_time()
        self._bill()
        self._sell()
        self._register_apps()
        self._delete_something()

    def _as(self, login: str) -> httpx.Client:
        return self.server.client(self.people[login].token)

    def _invite_client(self) -> None:
        self.server.run(lambda services: become_client(services, self.project, CLIENT[2]))
        body = {"email": "lena@northlight.example", "role": "direct_member"}
        call(self.api, "POST", f"/orgs/{ORGANIZATION[0]}/invitations", **body)

    def _fill_task(self) -> None:
        task = self.names["task_id"] = self.tasks[TASK]
        fields = {"Budget": "6,400 EUR", "Sketches": "https://design.example/seat-map"}
        whole = {"description": DESCRIPTION, "sections": SECTIONS, "fields": fields}
        call(self.api, "PATCH", f"/api/v1/tasks/{task}", **whole)
        for login, words, private in COMMENTS:
            with self._as(login) as theirs:
                extra = {"private": True} if private else {}
                make(theirs, f"/tasks/{task}/task_comments", text=words, **extra)
        call(self.api, "PATCH", f"/api/v1/tasks/{self.tasks['Translate the ticket terms']}", assignees=["sam", "ines"])

    def _add_files(self) -> None:
        folder = make(self.api, f"/projects/{self.project}/folders", title="Signed contracts")["id"]
        make(self.api, f"/projects/{self.project}/folders", title="Photos of the harbor")
        poster = typst.compile(_POSTER.encode(), format="png", ppi=144)
        program = typst.compile(_PROGRAM.encode(), format="pdf")
        self._upload("Contract with the ticket provider.pdf", program, "application/pdf", folder=folder)
        self._upload("Minutes of the kick-off.txt", _NOTES, "text/plain")
        self._upload("Program.pdf", program, "application/pdf")
        self._upload("Calculation.txt", b"Internal.\n", "text/plain", private="true")
        file = self.names["file_id"] = self._upload("Poster, first motif.png", poster, "image/png")
        words = {"text": "The sun is the logo now. What do you think?"}
        comment = call(self.api, "POST", f"/api/v1/files/{file}/file_comments", **words)["id"]
        with self._as("ines") as client:
            answer = {"body": "We love it. Could the date be larger?"}
            call(client, "POST", f"/api/v1/file_comments/{comment}/comments", **answer)

    def _upload(self, title: str, content: Any, media_type: str, **fields: str) -> str:
        upload = {"file": (title, bytes(content), media_type)}
        made = self.api.post(f"/api/v1/projects/{self.project}/files", files=upload, data={"title": title, **fields})
        assert made.is_success, made.text
        return str(made.json()["file"]["id"])

    def _spend_time(self) -> None:
        noon = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0)
        for days, login, minutes, notes, title in TIME:
            start = (noon - timedelta(days=days)).isoformat()
            body: dict[str, Any] = {"task_id": self.tasks[title], "start_time": start, "duration": minutes * 60_000}
            body |= {"notes": notes, "billable": title != TASK or days < 8, "billable_rate": RATES[login]}
            with self._as(login) as theirs:
                made = make(theirs, f"/projects/{self.project}/timesheets", **body)
            if days == 10:
                self.names["timesheet_id"] = made["id"]
        began = (datetime.now(UTC) - timedelta(minutes=47)).isoformat()
        # A running timer.
        make(self.api, f"/projects/{self.project}/timesheets", task_id=self.tasks[TASK], start_time=began)

    def _bill(self) -> None:
        today = datetime.now(UTC)
        facts = {
            "bill_from": "Northlight Studio\nQuay Street 4\n20457 Hamburg",
            "bill_to": "Harbor Festival Association\nInes Moreau\nHarbor Square 1",
            "currency": "EUR",
            "tax": 19,
            "payment_terms": "Net 14 days",
        }
        lines: list[list[tuple[str, float, float]]] = [
            [("Website, first milestone", 1, 4800), ("Hosting for a year", 12, 18.5)],
            [("Poster series: concept", 8, 95), ("Printing, 500 pieces", 1, 640)],
            [("Ticket shop: seat map", 14.5, 80), ("Newsletter: set-up", 3, 70)],
        ]
        ids = []
        for number, items in enumerate(lines):
            due = (today + timedelta(days=14 * number - 6)).strftime("%Y-%m-%d")
            given = [{"description": text, "qty": qty, "unit_price": price} for text, qty, price in items]
            ids.append(
                make(self.api, f"/projects/{self.project}/invoices", due=due, invoice_items=given, **facts)["id"]
            )
        for each in ids[:2]:
            make(self.api, f"/invoices/{each}/send")
        make(self.api, f"/invoices/{ids[0]}/pay")
        part = {"amount": 800, "paid_at": today.strftime("%Y-%m-%d"), "reference": "RE-2041"}
        make(self.api, f"/invoices/{ids[1]}/payments", **part)
        make(self.api, f"/invoices/{ids[1]}/credit_notes", total=66, reason="The paper was thinner than agreed")
        self.names |= {"invoice_id": ids[1], "draft_id": ids[2]}

    def _sell(self) -> None:
        prices = [
            {"amount": 290, "currency": "EUR", "interval": "month", "credits": 4},
            {"amount": 2900, "currency": "EUR", "interval": "year", "credits": 48},
        ]
        words = "Updates, backups, and four hours of changes each month."
        care = self._service("Website care", description=words, service_prices=prices, minimum_months=3)
        self._service("Extra hours", service_prices=[{"amount": 85, "currency": "EUR", "interval": "one_time"}])
        monthly = [{"amount": 120, "currency": "EUR", "interval": "month"}]
        self._service("Newsletter service", description="Up to two a month.", service_prices=monthly)
        there = f"/projects/{self.project}/service_checkouts"
        taken = make(self.api, there, service_id=care["id"])["id"]
        make(self.api, f"/service_checkouts/{taken}/complete")
        ledger = f"/projects/{self.project}/task_credits"
        make(self.api, ledger, amount=6, notes="Thanks for a great start")
        spent = {"kind": "spend", "task_id": self.tasks["Sponsor logos in the footer"], "notes": "Two late logos"}
        make(self.api, ledger, amount=2.5, **spent)
        self.names |= {"service_id": care["id"], "checkout_id": taken}

    def _service(self, title: str, **more: Any) -> Any:
        return make(self.api, "/services", title=title, organization=ORGANIZATION[0], **more)

    def _register_apps(self) -> None:
        org = f"/orgs/{ORGANIZATION[0]}"
        told = {"homepage_url": "https://reports.example", "callback_urls": ["https://reports.example/callback"]}
        oauth = {"name": "Weekly reports", "description": "Charts of everyone's hours.", **told}
        self.names["client_id"] = call(self.api, "POST", f"{org}/oauth-apps", **oauth)["client_id"]
        robot = {"name": "Deploy robot", "description": "Moves cards when a release goes live.", "callback_urls": []}
        made = call(self.api, "POST", f"{org}/apps", permissions={"work": "write"}, **robot)
        installed = call(self.api, "POST", f"{org}/installations", app=made["slug"])
        self.names |= {"slug": made["slug"], "installation_id": str(installed["id"])}

    def add_newest_activity(self) -> None:
        """Act last, so that the newest activity and deliveries are of several people and kinds."""
        posters, terms = self.tasks["Poster series: three motifs"], self.tasks["Translate the ticket terms"]
        logos = self.tasks["Sponsor logos in the footer"]
        with self._as("ines") as client:
            make(client, f"/tasks/{posters}/task_comments", text="The second motif is our favorite.")
        with self._as("jonas") as theirs:
            call(theirs, "PATCH", f"/api/v1/tasks/{logos}", priority="high")
            make(theirs, f"/tasks/{logos}/task_comments", text="Two logos came late. They are in now.")
        with self._as("sam") as theirs:
            call(theirs, "PATCH", f"/api/v1/tasks/{terms}", labels=["content", "legal", "translation"])
        with self._as("mei") as theirs:
            make(theirs, f"/projects/{self.project}/folders", title="Seat maps")
            make(
                theirs,
                f"/columns/{self.names['column_id']}/tasks",
                title="Lost and found, as a page",
                labels=["content"],
            )

    def _delete_something(self) -> None:
        for title in ("Audio walk along the old docks (copy)", "Old banner"):
            task = make(self.api, f"/columns/{self.names['column_id']}/tasks", title=title)["id"]
            call(self.api, "DELETE", f"/api/v1/tasks/{task}")
        file = self._upload("Poster, wrong colors.png", b"PNG", "image/png")
        call(self.api, "DELETE", f"/api/v1/files/{file}")
        for title in ("Museum guide", "Lighthouse shop"):
            make(self.api, "/projects", title=title, organization=ORGANIZATION[0])
        old = make(self.api, "/projects", title="Winter market 2024", organization=ORGANIZATION[0])["id"]
        call(self.api, "DELETE", f"/api/v1/projects/{old}")
