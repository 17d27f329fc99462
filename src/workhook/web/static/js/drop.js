// Takes the file that is dropped anywhere on the page into the form's field, and sends it. While it is under way the form
// says so, and cannot be sent twice.
import { Controller } from "stimulus"
import { listenForDrops } from "workhook/drops"

export default class extends Controller {
  static targets = ["input", "button", "busy"]

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
    this.element.requestSubmit()
  }

  sending() {
    this.busyTarget.hidden = false
    this.buttonTarget.disabled = true
  }

  rest() {
    this.busyTarget.hidden = true
    this.buttonTarget.disabled = false
  }
}
