// A <details> that closes on Escape and on a click outside.
import { Controller } from "stimulus"

export default class extends Controller {
  connect() {
    this.outside = (event) => { if (!this.element.contains(event.target)) this.element.open = false }
    this.escape = (event) => {
      if (event.key !== "Escape" || !this.element.open) return
      event.preventDefault() // keeps the surrounding dialog open
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
