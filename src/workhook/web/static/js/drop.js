// Takes the file that is dropped anywhere on the page into the form's field, and asks what would be made of it. While the
// form is under way it says so, and cannot be sent twice.
import { Controller } from "stimulus"
import { listenForDrops } from "workhook/drops"

export default class extends Controller {
  static targets = ["input", "button", "look", "busy"]

  connect() {
    this.stopDrops = listenForDrops(this.element, (files) => this.take(files))
    this.shown = (event) => { if (event.persisted) this.rest() } // the page came back as it was left
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

  // A button that is disabled sends no value, so this comes once the form is on its way. One of them is below the plan.
  setDisabled(disabled) {
    const buttons = [...this.element.elements].filter((each) => each.type === "submit")
    setTimeout(() => buttons.forEach((each) => { each.disabled = disabled }))
  }

  rest() {
    this.busyTarget.hidden = true
    this.setDisabled(false)
  }
}
