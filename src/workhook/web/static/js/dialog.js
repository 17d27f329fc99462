// Opens the <dialog> that a button names (data-dialog-id-param), and gives the focus back when it closes.
import { Controller } from "stimulus"

export default class extends Controller {
  open(event) {
    const dialog = document.getElementById(event.params.id)
    if (!dialog) return
    event.preventDefault()
    dialog.showModal()
  }
}
