// Renders the pages of a PDF as they scroll into view. Scripts, forms and links of the file are inactive. The text of
// each page is available to screen readers behind its image.
import { Controller } from "stimulus"

const PAGES_MAX = 100
const PIXELS_MAX = 4096 // maximum side length of a page's image
const NEAR = "100% 0px"
// Fetches only the shown parts of the file. The CSP allows no WebAssembly, and the page reports errors itself.
const OPTIONS = { disableAutoFetch: true, enableXfa: false, useWasm: false, verbosity: 0 }

export default class extends Controller {
  static targets = ["pages", "state", "failed", "more"]
  static values = { link: String, worker: String, page: String }

  async connect() {
    this.drawn = new WeakSet()
    this.pagesTarget.replaceChildren() // canvases restored from the back/forward cache are empty
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
