// Takes the file that is dropped anywhere on the page into the form's field, and sends it. While it is under way the form
// says so, and cannot be sent twice.
import { Controller } from "stimulus"

export default class extends Controller {
  static targets = ["input", "button", "busy"]

  connect() {
    this.events = [
      ["dragover", (event) => this.over(event)],
      ["dragleave", (event) => { if (!event.relatedTarget) this.leaveOff() }],
      ["drop", (event) => this.drop(event)],
    ]
    for (const [name, listener] of this.events) document.addEventListener(name, listener)
    this.shown = (event) => { if (event.persisted) this.rest() } // the page came back as it was left
    window.addEventListener("pageshow", this.shown)
  }

  disconnect() {
    for (const [name, listener] of this.events) document.removeEventListener(name, listener)
    window.removeEventListener("pageshow", this.shown)
  }

  over(event) {
    if (!event.dataTransfer?.types.includes("Files")) return
    event.preventDefault()
    event.dataTransfer.dropEffect = "copy"
    this.element.classList.add("over")
  }

  leaveOff() {
    this.element.classList.remove("over")
  }

  drop(event) {
    this.leaveOff()
    if (!event.dataTransfer?.files.length) return
    event.preventDefault()
    if (this.buttonTarget.disabled) return
    this.inputTarget.files = event.dataTransfer.files
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
