// Puts a file dropped anywhere on the page into the form and requests a preview of the import. While the form is being
// sent, it shows so and can't be sent again.
import { Controller } from "stimulus"
import { listenForDrops } from "workhook/drops"

export default class extends Controller {
  static targets = ["input", "button", "look", "busy"]

  connect() {
    this.stopDrops = listenForDrops(this.element, (files) => this.take(files))
    this.shown = (event) => { if (event.persisted) this.rest() } // restored from the back/forward cache
    window.addEventListener("pageshow", this.shown)
  }

  disconnect() {
    this.stopDrops()
    window.removeEventListener("pageshow", this.shown)
  }

  take(files) {
    if (this.buttonTarget.disabled) return
    this.inputTarget.files = files
    this.element.requestSubmit(this.lookTarget)
  }

  sending() {
    this.busyTarget.hidden = false
    this.setDisabled(true)
  }

  // A disabled button sends no value, so this runs after submission. One of the buttons is below the plan.
  setDisabled(disabled) {
    const buttons = [...this.element.elements].filter((each) => each.type === "submit")
    setTimeout(() => buttons.forEach((each) => { each.disabled = disabled }))
  }

  rest() {
    this.busyTarget.hidden = true
    this.setDisabled(false)
  }
}
