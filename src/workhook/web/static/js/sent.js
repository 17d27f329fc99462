// Empties a form that was sent and taken, and closes what it stood in: else the refresh would keep what was typed.
import { Controller } from "stimulus"

export default class extends Controller {
  clear(event) {
    if (!event.detail.success) return
    this.element.reset()
    const around = this.element.closest("details")
    if (around) around.open = false
  }

  // What was added stands before the form, and comes with the page that is on its way.
  showAdded(event) {
    if (!event.detail.success) return
    const before = this.element.previousElementSibling
    const show = () => {
      const added = this.element.previousElementSibling
      if (added === before) return
      document.removeEventListener("turbo:render", show)
      added.scrollIntoView({ block: "nearest", inline: "start" })
    }
    document.addEventListener("turbo:render", show)
  }
}
