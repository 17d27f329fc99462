// Saves the text of the element `from` as a file, entirely in the browser, so no URL ever contains it.
import { Controller } from "stimulus"

export default class extends Controller {
  static values = { from: String, name: String }

  save() {
    const text = document.getElementById(this.fromValue).textContent
    const link = document.createElement("a")
    link.href = URL.createObjectURL(new Blob([text], { type: "application/x-pem-file" }))
    link.download = this.nameValue
    link.click()
    URL.revokeObjectURL(link.href)
  }
}
