// Opens the <dialog> in data-dialog-id-param, and restores the focus when it closes.
import { Controller } from "stimulus"

export default class extends Controller {
  open(event) {
    const dialog = document.getElementById(event.params.id)
    if (!dialog) return
    event.preventDefault()
    dialog.showModal()
  }
}
