// Copies a text, or that of the element `from`, to the clipboard. If the browser does not allow that, the text is shown
// and selected for copying by hand.
import { Controller } from "stimulus"

export default class extends Controller {
  static values = { text: String, from: String, done: String }
  static targets = ["label"]

  async copy() {
    const text = this.fromValue ? document.getElementById(this.fromValue).textContent : this.textValue
    try {
      await navigator.clipboard.writeText(text)
    } catch {
      return this.show(text)
    }
    const label = this.hasLabelTarget ? this.labelTarget : this.element
    const before = label.textContent
    label.textContent = this.doneValue
    setTimeout(() => { label.textContent = before }, 2000)
  }

  show(text) {
    const field = this.element.parentElement.querySelector("[data-copied]") ?? document.createElement("textarea")
    Object.assign(field, { value: text, readOnly: true, rows: 2 })
    field.dataset.copied = ""
    field.setAttribute("aria-label", this.element.textContent.trim())
    this.element.after(field)
    field.select()
  }
}
