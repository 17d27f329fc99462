// Copies a text to the clipboard, or that of the element that `from` names, and says so.
import { Controller } from "stimulus"

export default class extends Controller {
  static values = { text: String, from: String, done: String }
  static targets = ["label"]

  async copy() {
    const text = this.fromValue ? document.getElementById(this.fromValue).textContent : this.textValue
    await navigator.clipboard.writeText(text)
    const label = this.hasLabelTarget ? this.labelTarget : this.element
    const before = label.textContent
    label.textContent = this.doneValue
    setTimeout(() => { label.textContent = before }, 2000)
  }
}
