// Empties a form that was sent and taken, and closes what it stood in: else the refresh would keep what was typed.
import { Controller } from "stimulus"

export default class extends Controller {
  clear(event) {
    if (!event.detail.success) return
    this.element.reset()
    const around = this.element.closest("details")
    if (around) around.open = false
  }
}
