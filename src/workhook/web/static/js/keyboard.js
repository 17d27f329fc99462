// Single-key shortcuts: elements declare theirs (data-hotkey="c"), and tabs are reached with `g` and a letter
// (data-go="b"). Inactive while typing. They can be turned off (WCAG 2.1.4).
import { Controller } from "stimulus"

const OFF = "workhook-shortcuts-off"
const SECOND_KEY_MS = 1500

export function isTyping(event) {
  const target = event.target
  return event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey ||
    (target instanceof Element && target.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable=true]"))
}

export function areOn() {
  return localStorage.getItem(OFF) === null
}

export default class extends Controller {
  static targets = ["switch"]

  connect() {
    this.pressed = (event) => this.press(event)
    document.addEventListener("keydown", this.pressed)
  }

  disconnect() {
    document.removeEventListener("keydown", this.pressed)
  }

  switchTargetConnected(element) {
    element.checked = areOn()
  }

  press(event) {
    const dialog = [...document.querySelectorAll("dialog[open]")].at(-1)
    if (isTyping(event) || !areOn() || (dialog && !dialog.matches(".over"))) return
    if (event.key === "?") return this.take(event, () => this.help())
    const waits = Date.now() - (this.goAt ?? 0) < SECOND_KEY_MS
    this.goAt = event.key === "g" ? Date.now() : 0
    const name = waits && event.key !== "g" ? "data-go" : "data-hotkey"
    if (event.shiftKey || !/^[a-z/]$/.test(event.key)) return
    const found = (dialog ?? document).querySelectorAll(`[${name}="${event.key}"]`)
    const element = name === "data-go" ? [...found].at(-1) : found[0] // a project's tabs come after the menu
    if (element) this.take(event, () => (element.matches("input, textarea, select") ? element.focus() : element.click()))
  }

  take(event, action) {
    event.preventDefault()
    action()
  }

  help() {
    document.getElementById("shortcuts")?.showModal()
  }

  toggle(event) {
    if (event.target.checked) localStorage.removeItem(OFF)
    else localStorage.setItem(OFF, "1")
  }
}
