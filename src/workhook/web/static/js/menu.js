// A <details> that closes when something else is clicked, and with Escape.
import { Controller } from "stimulus"

export default class extends Controller {
  connect() {
    this.outside = (event) => { if (!this.element.contains(event.target)) this.element.open = false }
    this.escape = (event) => {
      if (event.key !== "Escape" || !this.element.open) return
      event.preventDefault() // the dialog around it stays open
      this.element.open = false
      this.element.querySelector("summary")?.focus()
    }
    document.addEventListener("click", this.outside)
    this.element.addEventListener("keydown", this.escape)
  }

  disconnect() {
    document.removeEventListener("click", this.outside)
    this.element.removeEventListener("keydown", this.escape)
  }
}
