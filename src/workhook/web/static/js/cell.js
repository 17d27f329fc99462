// One field of a record where it is shown: a change is sent at once, and taken back if it is refused.
import { Controller } from "stimulus"

const TYPING_MS = 900

export default class extends Controller {
  changed(event) {
    clearTimeout(this.timer)
    // A date is typed part by part, each of which is a change.
    this.timer = setTimeout(() => this.send(), event.target.type === "date" ? TYPING_MS : 0)
  }

  send() {
    if (this.element.checkValidity()) this.element.requestSubmit()
  }

  // What was saved is what a refresh may replace.
  settle(event) {
    if (!event.detail.success) return this.element.reset()
    for (const field of this.element.elements) {
      if (field.tagName === "SELECT") for (const each of field.options) each.defaultSelected = each.selected
      else if (field.type === "text") field.classList.toggle("none", !(field.defaultValue = field.value))
      else if (field.type === "date") {
        field.defaultValue = field.value
        field.classList.toggle("none", !field.value)
        if (!field.value) field.classList.remove("late")
      }
    }
  }

  disconnect() {
    clearTimeout(this.timer)
  }
}
