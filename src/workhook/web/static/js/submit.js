// Submits a form when one of its fields changes: data-action="change->submit#send".
import { Controller } from "stimulus"

const PAUSE_MS = 300

export default class extends Controller {
  send() {
    this.element.requestSubmit()
  }

  later() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.send(), PAUSE_MS)
  }

  disconnect() {
    clearTimeout(this.timer)
  }
}
