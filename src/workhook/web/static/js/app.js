// The entry point of pages for signed-in users: Turbo for navigation, and one controller per behavior.
import "workhook/popped"
import * as Turbo from "turbo"
import { Application } from "stimulus"

import Copy from "workhook/copy"
import Dialog from "workhook/dialog"
import Keyboard from "workhook/keyboard"
import Live from "workhook/live"
import Menu from "workhook/menu"
import Stale from "workhook/stale"
import Submit from "workhook/submit"
import Timer from "workhook/timer"
import { tellZone } from "workhook/timezone"
import Toast from "workhook/toast"
import When from "workhook/when"
import { forget, tell } from "workhook/messages"
import { protectWhatIsInUse } from "workhook/morphing"
import "workhook/formkey"
import "workhook/once"

document.documentElement.classList.add("js")
Turbo.config.drive.progressBarDelay = 1e9 // its style sheet would violate the CSP; layout.css shows progress
protectWhatIsInUse()
tellZone()
document.addEventListener("turbo:load", tellZone)

const application = Application.start()
for (const [name, controller] of Object.entries({
  copy: Copy, dialog: Dialog, keyboard: Keyboard, live: Live, menu: Menu, stale: Stale, submit: Submit, timer: Timer, toast: Toast, when: When,
})) application.register(name, controller)

// Turbo aborts a page that is still loading if a form is submitted meanwhile, which is not an error.
window.addEventListener("unhandledrejection", (event) => { if (event.reason?.name === "AbortError") event.preventDefault() })

// Pages name their additional controllers: <meta name="controllers" content="board task">.
const loaded = new Set()
const early = new Map() // replays actions that happened before their controller was loaded, by controller name; null: none yet
async function loadControllers() {
  const names = document.querySelector("meta[name=controllers]")?.content.split(" ") ?? []
  const missing = names.filter((each) => each && !loaded.has(each))
  for (const name of missing) {
    loaded.add(name)
    early.set(name, null)
  }
  for (const name of missing) {
    const module = await import(`workhook/${name}`)
    application.register(name, module.default)
    const again = early.get(name)
    early.delete(name)
    again?.()
  }
}
document.addEventListener("turbo:load", loadControllers)
function remember(element, again) {
  const name = element?.dataset.action.match(/([\w-]+)#/)?.[1]
  if (early.has(name)) early.set(name, () => { if (element.isConnected) again(element) })
}
document.addEventListener("click", (event) => remember(event.target.closest?.("button[type=button][data-action]"), (button) => button.click()), true)
document.addEventListener("change", (event) => remember(event.target.closest?.("[data-action*='change']"), () => event.target.dispatchEvent(new Event("change", { bubbles: true }))), true)
document.addEventListener("toggle", (event) => remember(event.target.closest?.("details[data-action]"), (details) => details.dispatchEvent(new Event("toggle"))), true)

// On a narrow screen, the current breadcrumb and tab may be out of view.
const ROWS = ".tabs, .places"
function showPlace() {
  for (const row of document.querySelectorAll(ROWS)) {
    const here = row.querySelector("[aria-current]") ?? row.querySelector(":scope > :last-child")
    const [place, around] = [here, row].map((each) => each.getBoundingClientRect())
    row.scrollLeft += place.left - around.left - (row.clientWidth - place.width) / 2
  }
}
document.addEventListener("turbo:load", showPlace)
document.addEventListener("focusin", (event) => event.target.closest(ROWS) && event.target.scrollIntoView({ block: "nearest", inline: "nearest" }))

// A button that resets and closes its form.
document.addEventListener("click", (event) => {
  const around = event.target.closest?.("[data-folds]")?.closest("details")
  if (!around) return
  for (const form of around.querySelectorAll("form")) form.reset()
  around.open = false
  around.querySelector("summary").focus()
})

// Offline, a form would do nothing and a link would lead to the browser's error page.
document.addEventListener("turbo:fetch-request-error", (event) => {
  tell("unreachable")
  if (event.target !== document.documentElement) return // only page visits, not forms or frames
  event.preventDefault() // Turbo would fall back to a full page load
  Turbo.session.navigator.currentVisit?.fail()
})
document.addEventListener("turbo:before-visit", (event) => {
  if (navigator.onLine) return
  event.preventDefault()
  tell("unreachable")
})

// Messages only concern the last action.
document.addEventListener("turbo:before-fetch-response", () => forget("[data-told=unreachable]"))
document.addEventListener("turbo:submit-start", () => forget(".toast.bad"))
document.addEventListener("turbo:submit-end", () => forget(".toast:not(.bad)"))
loadControllers()
