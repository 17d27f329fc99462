// Shows the pages of a PDF, each drawn when it comes into view. The file is only read, never run: its own scripts, forms
// and links do nothing. The text of a page stands behind its picture, for those who listen to it.
import { Controller } from "stimulus"

const PAGES_MAX = 100
const PIXELS_MAX = 4096 // of a side of the picture of a page
const NEAR = "100% 0px"
// It fetches what it shows; the policy of the pages allows no WebAssembly; what is wrong with a file is told by the page.
const OPTIONS = { disableAutoFetch: true, enableXfa: false, useWasm: false, verbosity: 0 }

export default class extends Controller {
  static targets = ["pages", "state", "failed", "more"]
  static values = { link: String, worker: String, page: String }

  async connect() {
    this.drawn = new WeakSet()
    this.pagesTarget.replaceChildren() // a page out of the browser's memory has pictures without a content
    try {
      const { getDocument, GlobalWorkerOptions } = await import("pdf-reader")
      GlobalWorkerOptions.workerSrc = this.workerValue
      this.loading = getDocument({ url: this.linkValue, ...OPTIONS })
      await this.show(await this.loading.promise)
    } catch {
      if (this.element.isConnected) this.fail()
    }
  }

  disconnect() {
    this.observer?.disconnect()
    this.loading?.destroy()
  }

  async show(file) {
    const count = Math.min(file.numPages, PAGES_MAX)
    const shape = (await file.getPage(1)).getViewport({ scale: 1 })
    this.observer = new IntersectionObserver((entries) => entries.filter((each) => each.isIntersecting).forEach((each) => this.draw(file, each.target)), { root: this.pagesTarget, rootMargin: NEAR })
    for (let number = 1; number <= count; number += 1) {
      const canvas = document.createElement("canvas")
      Object.assign(canvas, { width: Math.ceil(shape.width), height: Math.ceil(shape.height) })
      canvas.dataset.number = number
      canvas.setAttribute("role", "img")
      canvas.setAttribute("aria-label", this.pageValue.replace("{page}", number).replace("{pages}", file.numPages))
      this.pagesTarget.append(canvas)
      this.observer.observe(canvas)
    }
    this.stateTarget.hidden = true
    this.moreTarget.hidden = file.numPages <= count
    this.pagesTarget.hidden = false
  }

  async draw(file, canvas) {
    if (this.drawn.has(canvas)) return
    this.drawn.add(canvas)
    try {
      const page = await file.getPage(Number(canvas.dataset.number))
      const plain = page.getViewport({ scale: 1 })
      const wanted = (canvas.clientWidth * (devicePixelRatio || 1)) / plain.width
      const viewport = page.getViewport({ scale: Math.min(wanted, PIXELS_MAX / Math.max(plain.width, plain.height)) })
      Object.assign(canvas, { width: Math.ceil(viewport.width), height: Math.ceil(viewport.height) })
      await page.render({ canvas, viewport }).promise
      await this.write(page, canvas)
      canvas.dataset.drawn = ""
    } catch {
      if (this.element.isConnected) this.fail()
    }
  }

  async write(page, canvas) {
    const { items } = await page.getTextContent()
    const text = items.map((each) => (each.str ?? "") + (each.hasEOL ? "\n" : "")).join("")
    if (!text.trim()) return
    const words = document.createElement("p")
    words.className = "unseen"
    words.textContent = text
    canvas.after(words)
  }

  fail() {
    this.stateTarget.hidden = true
    this.failedTarget.hidden = false
  }
}
