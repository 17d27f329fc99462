// Sends a form as soon as one of its fields has changed: data-action="change->submit#send".
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
