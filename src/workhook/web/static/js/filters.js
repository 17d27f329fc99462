// A form of filters: sent as soon as one has changed, without those that are empty.
import { Controller } from "stimulus"

const PAUSE_MS = 400

export default class extends Controller {
  send(event) {
    if (this.typed === event.target.value && event.target.matches("[type=search], input:not([type])")) return
    this.typed = undefined
    delete this.element.dataset.turboAction
    clearTimeout(this.timer)
    // A date is typed part by part, each of which is a change.
    const pause = event.target.type === "date" ? 2 * PAUSE_MS : 0
    this.timer = setTimeout(() => this.element.requestSubmit(), pause)
  }

  // Words act while they are typed. What was sent so is not sent again when the field is left.
  type(event) {
    if (!event.target.matches("[type=search], input:not([type])")) return
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.typed = event.target.value
      event.target.defaultValue = this.typed // else the form counts as being filled in, and is left as it is
      this.element.dataset.turboAction = "replace" // morphs, so that the field keeps the cursor
      this.element.requestSubmit()
    }, PAUSE_MS)
  }

  // On a narrow screen what is chosen less often is folded away.
  fold(event) {
    const isOpen = this.element.classList.toggle("unfolded")
    event.currentTarget.setAttribute("aria-expanded", isOpen)
  }

  tidy(event) {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name)
  }

  // What was sent and taken is what a refresh may replace.
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
