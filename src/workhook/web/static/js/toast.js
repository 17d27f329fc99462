// A message that disappears by itself, unless it is focused, hovered over, or an error.
import { Controller } from "stimulus"

const SHOWN_MS = 10000

export default class extends Controller {
  connect() {
    if (this.element.classList.contains("bad")) return
    this.start()
    for (const name of ["mouseenter", "focusin"]) this.element.addEventListener(name, () => clearTimeout(this.timer))
    for (const name of ["mouseleave", "focusout"]) this.element.addEventListener(name, () => this.start())
  }

  start() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.close(), SHOWN_MS)
  }

  close() {
    this.element.remove()
  }

  disconnect() {
    clearTimeout(this.timer)
  }
}
