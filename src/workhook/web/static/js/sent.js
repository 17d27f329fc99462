// Resets a form after success and closes its container, because a refresh would preserve the typed text.
import { Controller } from "stimulus"
import { renewKey } from "workhook/formkey"

export default class extends Controller {
  clear(event) {
    if (!event.detail.success) return
    this.element.reset()
    renewKey(this.element) // the next submission is a new one, even with the same text
    const around = this.element.closest("details")
    if (around) around.open = false
  }

  // Escape returns to the cards and keeps the typed text.
  leave(event) {
    if (event.defaultPrevented) return
    event.preventDefault()
    const before = this.element.previousElementSibling?.querySelectorAll("a[data-over]")
    event.target.blur()
    before?.[before.length - 1]?.focus()
  }

  // The added item precedes the form and arrives with the pending page.
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
