// Shows a running timer, second by second. It counts from the server's value, independent of the local clock.
import { Controller } from "stimulus"

const SECOND_MS = 1000

export default class extends Controller {
  static targets = ["text"]
  static values = { counted: Number }

  connect() {
    this.ticking = setInterval(() => this.show(), SECOND_MS)
  }

  disconnect() {
    clearInterval(this.ticking)
  }

  countedValueChanged() {
    this.began = performance.now() - this.countedValue
    this.show()
  }

  show() {
    const seconds = Math.floor((performance.now() - this.began) / SECOND_MS)
    const two = (number) => String(number).padStart(2, "0")
    const text = `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`
    for (const each of this.textTargets) each.textContent = text
  }
}
