// Remembers collapsed columns in this browser.
import { Controller } from "stimulus"

export default class extends Controller {
  static targets = ["button"]

  connect() {
    this.show(localStorage.getItem(this.key) !== null)
  }

  toggle() {
    const folded = !this.element.classList.contains("folded")
    if (folded) localStorage.setItem(this.key, "1")
    else localStorage.removeItem(this.key)
    this.show(folded)
  }

  buttonTargetConnected() {
    this.show(localStorage.getItem(this.key) !== null)
  }

  show(folded) {
    this.element.classList.toggle("folded", folded)
    if (this.hasButtonTarget) this.buttonTarget.setAttribute("aria-expanded", String(!folded))
  }

  get key() {
    return `workhook-folded-${this.element.id}`
  }
}
