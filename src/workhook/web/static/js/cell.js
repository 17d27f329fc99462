// A field that is saved as soon as it changes, and restored if saving fails.
import { Controller } from "stimulus"

const TYPING_MS = 900

export default class extends Controller {
  changed(event) {
    clearTimeout(this.timer)
    // Typing a date fires a change for each of its parts.
    this.timer = setTimeout(() => this.send(), event.target.type === "date" ? TYPING_MS : 0)
  }

  send() {
    if (this.element.checkValidity()) this.element.requestSubmit()
  }

  // A refresh may replace saved values.
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
