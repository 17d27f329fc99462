// A form of filters: sent as soon as one has changed, without those that are empty.
import { Controller } from "stimulus"

const PAUSE_MS = 400

export default class extends Controller {
  send(event) {
    clearTimeout(this.timer)
    // A date is typed part by part, each of which is a change.
    const pause = event.target.type === "date" ? 2 * PAUSE_MS : 0
    this.timer = setTimeout(() => this.element.requestSubmit(), pause)
  }

  tidy(event) {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name)
  }

  disconnect() {
    clearTimeout(this.timer)
  }
}
