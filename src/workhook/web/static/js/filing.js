// The form below the list moves selected files. Dragging a file onto a folder selects it, in addition to the current
// selection if it is part of that, and submits the same form.
import { Controller } from "stimulus"

export default class extends Controller {
  static targets = ["form", "to", "box", "row", "folder"]

  rowTargetConnected(row) {
    row.addEventListener("dragstart", (event) => this.start(event, row))
    row.addEventListener("dragend", () => this.end())
  }

  folderTargetConnected(folder) {
    folder.addEventListener("dragover", (event) => this.over(event, folder))
    folder.addEventListener("dragleave", (event) => { if (!folder.contains(event.relatedTarget)) folder.classList.remove("drop-here") })
    folder.addEventListener("drop", (event) => this.drop(event, folder))
  }

  boxTargetDisconnected() {
    this.chosen()
  }

  formTargetConnected() {
    this.chosen()
  }

  opened(event) {
    if (event.target.open) event.target.querySelector("input:not([type=hidden])").focus()
  }

  chosen() {
    if (!this.hasFormTarget) return
    const count = this.boxTargets.filter((each) => each.checked).length
    this.formTarget.classList.toggle("open", count > 0)
    this.formTarget.querySelector("[data-selection-count]").textContent = count
  }

  // The form resets only after its `reset` event.
  later() {
    setTimeout(() => this.chosen())
  }

  start(event, row) {
    this.dragged = row
    this.element.dataset.busy = ""
    event.dataTransfer.effectAllowed = "move"
    event.dataTransfer.setData("text/plain", row.querySelector("a").textContent)
  }

  over(event, folder) {
    if (!this.dragged) return // files from outside the page are uploads
    event.preventDefault()
    event.dataTransfer.dropEffect = "move"
    folder.classList.add("drop-here")
  }

  drop(event, folder) {
    if (!this.dragged) return
    event.preventDefault()
    const box = this.dragged.querySelector(".choose")
    this.end()
    if (!box.checked) for (const each of this.boxTargets) each.checked = each === box
    this.toTarget.value = folder.dataset.folder
    this.chosen()
    this.formTarget.requestSubmit()
  }

  end() {
    this.dragged = null
    delete this.element.dataset.busy
    for (const each of this.folderTargets) each.classList.remove("drop-here")
  }
}
