// Continues a running timer from its value when the page was rendered.
import { Controller } from "stimulus"

const EVERY_MS = 1000

export default class extends Controller {
  static values = { ms: Number }

  connect() {
    this.timer = setInterval(() => this.show(), EVERY_MS)
  }

  disconnect() {
    clearInterval(this.timer)
  }

  msValueChanged() {
    this.since = performance.now()
    this.show()
  }

  show() {
    const seconds = Math.floor((this.msValue + performance.now() - this.since) / 1000)
    const two = (number) => String(number).padStart(2, "0")
    this.element.textContent = `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`
  }
}
