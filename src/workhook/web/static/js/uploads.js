// Uploads selected or dropped files, each in its own request, with progress and retries. Without JavaScript, the form
// uploads a single file.
import { Controller } from "stimulus"
import { listenForDrops } from "workhook/drops"
import { anotherKey, isAlike } from "workhook/formkey"
import { isUnderWay } from "workhook/morphing"
import { refresh } from "workhook/refresh"

const AT_ONCE = 2

export default class extends Controller {
  static targets = ["form", "input", "list", "row", "told"]
  static values = {
    limit: Number, tooLarge: String, lost: String, stopped: String, sending: String, waiting: String, done: String,
    failed: String, leave: String, odd: String,
  }

  connect() {
    this.uploads = new Map() // by row
    this.inputTarget.multiple = true
    this.stopDrops = listenForDrops(this.element, (files) => this.add(files))
    this.events = [
      [document, "turbo:before-visit", (event) => { if (this.isBusy && !confirm(this.leaveValue)) event.preventDefault() }],
      [window, "beforeunload", (event) => { if (this.isBusy) event.preventDefault() }],
      // Refreshes keep the rows of running and failed uploads, which the server doesn't know.
      [this.element, "turbo:before-morph-element", (event) => this.keep(event)],
    ]
    for (const [target, name, listener] of this.events) target.addEventListener(name, listener)
    if (this.inputTarget.files.length) this.chosen() // selected before this script was loaded
  }

  disconnect() {
    this.stopDrops()
    for (const [target, name, listener] of this.events) target.removeEventListener(name, listener)
    for (const upload of this.uploads.values()) upload.request?.abort()
    this.uploads.clear()
  }

  get isBusy() {
    return [...this.uploads.values()].some((each) => each.state === "waiting" || each.state === "sending")
  }

  keep(event) {
    if (event.target === this.element) return // the form is replaced, as its key may be new
    const isOurs = event.target === this.listTarget || event.target === this.toldTarget || this.listTarget.contains(event.target)
    if (isOurs || event.target === this.inputTarget) event.preventDefault()
  }

  chosen() {
    this.add(this.inputTarget.files)
    this.inputTarget.value = ""
  }

  submit(event) {
    event.preventDefault()
    if (this.inputTarget.files.length) this.chosen()
  }

  // Each file keeps the form's fields, such as `private`, from the time it was selected.
  add(files) {
    for (const file of files) {
      const row = this.rowTarget.content.firstElementChild.cloneNode(true)
      const typed = [...new FormData(this.formTarget)].filter(([name]) => name !== "file")
      const fields = typed.map(([name, value]) => [name, name === "csrf" ? anotherKey(value) : value]) // each upload is its own form
      const upload = { file, fields, row, state: "waiting" }
      this.uploads.set(row, upload)
      this.part(row, "name").textContent = file.name
      this.part(row, "progress").setAttribute("aria-label", file.name)
      this.listTarget.append(row)
      if (this.limitValue && file.size > this.limitValue) this.fail(upload, this.tooLargeValue, false)
      else this.show(upload, "waiting", this.waitingValue)
    }
    this.next()
  }

  next() {
    const all = [...this.uploads.values()]
    const free = AT_ONCE - all.filter((each) => each.state === "sending").length
    all.filter((each) => each.state === "waiting").slice(0, Math.max(0, free)).forEach((each) => this.send(each))
  }

  send(upload) {
    const request = new XMLHttpRequest()
    const body = new FormData()
    for (const [name, value] of upload.fields) body.append(name, value)
    body.append("file", upload.file)
    request.open("POST", this.formTarget.action)
    request.setRequestHeader("Accept", "application/json")
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) this.part(upload.row, "progress").value = (100 * event.loaded) / event.total
    })
    request.addEventListener("load", () => this.answered(upload))
    request.addEventListener("error", () => this.fail(upload, this.lostValue))
    request.addEventListener("abort", () => this.fail(upload, this.stoppedValue))
    upload.request = request
    this.show(upload, "sending", this.sendingValue)
    request.send(body)
  }

  answered(upload) {
    const { status, responseText } = upload.request
    if (status >= 200 && status < 300) {
      this.told(this.doneValue, upload)
      this.uploads.delete(upload.row)
      upload.row.remove()
    } else {
      this.fail(upload, reasonOf(responseText) ?? this.oddValue.replace("{status}", status))
    }
    this.next()
    if (!this.isBusy && !isUnderWay()) refresh()
  }

  fail(upload, reason, isWorthATry = true) {
    this.show(upload, "failed", reason)
    this.part(upload.row, "retry").hidden = !isWorthATry
    this.told(this.failedValue, upload, reason)
    this.next()
  }

  show(upload, state, text) {
    upload.state = state
    const isOver = state === "failed"
    upload.row.classList.toggle("failed", isOver)
    this.part(upload.row, "state").textContent = text
    this.part(upload.row, "progress").hidden = isOver
    this.part(upload.row, "stop").hidden = isOver
    this.part(upload.row, "retry").hidden = !isOver
    this.part(upload.row, "dismiss").hidden = !isOver
  }

  told(text, upload, more = "") {
    this.toldTarget.textContent = `${text.replace("{name}", () => upload.file.name)} ${more}`
  }

  retry(event) {
    const upload = this.of(event)
    this.part(upload.row, "progress").value = 0
    const key = this.formTarget.elements.csrf.value // may belong to a new session
    upload.fields = upload.fields.map(([name, value]) => [name, name !== "csrf" || isAlike(value, key) ? value : anotherKey(key)])
    this.show(upload, "waiting", this.waitingValue)
    this.next()
  }

  stop(event) {
    const upload = this.of(event)
    if (upload.state === "sending") upload.request.abort()
    else this.fail(upload, this.stoppedValue)
  }

  dismiss(event) {
    const upload = this.of(event)
    this.uploads.delete(upload.row)
    upload.row.remove()
    this.inputTarget.focus()
  }

  of(event) {
    return this.uploads.get(event.target.closest(".upload-row"))
  }

  part(row, name) {
    return row.querySelector(`[data-part=${name}]`)
  }
}

// The server's message, with each error.
function reasonOf(text) {
  try {
    const answer = JSON.parse(text)
    const faults = (answer.errors ?? []).map((each) => each.message).filter((each) => each)
    return faults.length ? faults.map((each) => each.replace(/\.$/, "")).join(". ") : answer.message
  } catch {
    return undefined // a response from a proxy
  }
}
