// A filter form that is submitted on each change, without empty fields.
import { Controller } from "stimulus"

const PAUSE_MS = 400

export default class extends Controller {
  send(event) {
    if (this.typed === event.target.value && event.target.matches("[type=search], input:not([type])")) return
    this.typed = undefined
    delete this.element.dataset.turboAction
    clearTimeout(this.timer)
    // Typing a date fires a change for each of its parts.
    const pause = event.target.type === "date" ? 2 * PAUSE_MS : 0
    this.timer = setTimeout(() => this.element.requestSubmit(), pause)
  }

  // Text filters while typing, and isn't submitted again when the field loses the focus.
  type(event) {
    if (!event.target.matches("[type=search], input:not([type])")) return
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.typed = event.target.value
      event.target.defaultValue = this.typed // otherwise the form counts as edited and refreshes skip it
      this.element.dataset.turboAction = "replace" // morphing keeps the cursor in the field
      this.element.requestSubmit()
    }, PAUSE_MS)
  }

  // On a narrow screen, less common filters are collapsed.
  fold(event) {
    const isOpen = this.element.classList.toggle("unfolded")
    event.currentTarget.setAttribute("aria-expanded", isOpen)
  }

  tidy(event) {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name)
  }

  // A refresh may replace submitted values.
  settle(event) {
    if (!event.detail.success) return
    for (const field of this.element.elements) {
      if (field.tagName === "SELECT") for (const each of field.options) each.defaultSelected = each.selected
      else if (field.matches("[type=search], input:not([type])")) field.defaultValue = field.value
    }
  }

  disconnect() {
    clearTimeout(this.timer)
  }
}
