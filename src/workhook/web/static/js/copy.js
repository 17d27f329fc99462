// Copies a text to the clipboard and says so.
import { Controller } from "stimulus"

export default class extends Controller {
  static values = { text: String, done: String }
  static targets = ["label"]

  async copy() {
    await navigator.clipboard.writeText(this.textValue)
    const label = this.hasLabelTarget ? this.labelTarget : this.element
    const before = label.textContent
    label.textContent = this.doneValue
    setTimeout(() => { label.textContent = before }, 2000)
  }
}
