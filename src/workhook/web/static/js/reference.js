// The API reference: Swagger UI over /openapi.json. Adds samples, labels for unlabeled fields, a filter by path and
// name, and URLs of operations (/docs#create_task).
import { Controller } from "stimulus"
import { samples } from "workhook/samples"

const FILTER = "Filter by path, name or tag"

export default class extends Controller {
  static targets = ["waiting"]

  connect() {
    this.waitingTarget.hidden = false // nothing loads without scripts
    this.observer = new MutationObserver(() => this.mend())
    this.opened = () => this.open(decodeURIComponent(location.hash.slice(1)))
    const place = document.createElement("div")
    this.element.append(place)
    this.ui = window.SwaggerUIBundle({
      url: "/openapi.json", domNode: place, docExpansion: "none", filter: true, validatorUrl: null,
      defaultModelsExpandDepth: -1, persistAuthorization: false, syntaxHighlight: { activated: false },
      requestInterceptor: (request) => Object.assign(request, { credentials: "omit" }), // only tokens authenticate, never cookies
      plugins: [samples, ours], onComplete: () => this.complete(),
    })
  }

  disconnect() {
    removeEventListener("hashchange", this.opened)
    this.observer.disconnect()
  }

  complete() {
    this.waitingTarget.remove()
    this.observer.observe(this.element, { childList: true, subtree: true })
    this.mend()
    addEventListener("hashchange", this.opened)
    this.opened()
  }

  // Opens the operation in the URL.
  open(name) {
    for (const item of Object.values(this.ui.specSelectors.specJS().paths)) {
      for (const operation of Object.values(item)) {
        if (!name || operation.operationId !== name) continue
        const [tag] = operation.tags
        this.ui.layoutActions.show(["operations-tag", tag], true)
        this.ui.layoutActions.show(["operations", tag, name], true)
        return this.goTo(`operations-${tag.replace(/\s/g, "_")}-${name}`)
      }
    }
  }

  goTo(id) {
    if (!this.element.isConnected) return
    const found = document.getElementById(id)
    if (!found) return requestAnimationFrame(() => this.goTo(id))
    found.scrollIntoView()
    found.querySelector("button")?.focus({ preventScroll: true })
  }

  // Labels unlabeled fields, and makes scrollable areas focusable.
  mend() {
    for (const field of this.element.querySelectorAll("select, textarea, input")) {
      if (field.classList.contains("operation-filter-input")) field.placeholder = FILTER
      const labelled = [...(field.labels ?? [])].some((each) => ownText(each))
      if (!labelled && !field.hasAttribute("aria-label")) field.setAttribute("aria-label", nameOf(field))
    }
    for (const scrolled of this.element.querySelectorAll("pre:not([tabindex])")) scrolled.tabIndex = 0
    for (const each of this.element.querySelectorAll(".modal-ux:not([role])")) {
      each.setAttribute("role", "dialog")
      each.setAttribute("aria-label", "Authorize")
    }
  }
}

function ownText(label) {
  return [...label.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE || !each.matches("select, input")).map((each) => each.textContent).join("").trim()
}

function nameOf(field) {
  if (field.id === "servers") return "Server"
  if (field.classList.contains("operation-filter-input")) return FILTER
  const row = field.closest("[data-param-name]")
  if (row) return row.dataset.paramName
  if (field.matches("select")) return field.classList.contains("examples-select-element") ? "Example" : "Media type"
  return field.matches("textarea") ? "Body" : "Value"
}

// The heading of an operation is a button, which must not contain a link.
function ours({ React }) {
  const isFound = (words) => (each) => [each.get("path"), each.getIn(["operation", "operationId"]), each.getIn(["operation", "summary"])].some((text) => text?.toLowerCase().includes(words))
  return {
    afterLoad() {
      const resolve = this.fn.resolveSubtree
      this.fn.resolveSubtree = (spec, path, options) => resolve(part(spec, path), path, options)
    },
    statePlugins: { spec: { actions: { parseToJson: (text) => ({ specActions }) => specActions.updateJsonSpec(JSON.parse(text)) } } }, // not as YAML, which is slow
    components: { DeepLink: ({ text }) => React.createElement("span", null, text) },
    fn: {
      opsFilter: (tagged, phrase) => {
        const words = phrase.toLowerCase()
        return tagged
          .map((each, tag) => (tag.toLowerCase().includes(words) ? each : each.update("operations", (list) => list.filter(isFound(words)))))
          .filter((each) => each.get("operations").size)
      },
    },
  }
}

// Returns the document with only the part at `path` and the components that it refers to. Swagger UI converts the whole
// document, even to resolve a single operation, which blocks the page for seconds.
function part(spec, path) {
  const kept = { openapi: spec.openapi, info: spec.info }
  const keep = (keys) => {
    const place = keys.slice(0, -1).reduce((at, key) => (at[key] ??= {}), kept)
    if (place[keys.at(-1)]) return
    follow((place[keys.at(-1)] = keys.reduce((at, key) => at?.[key], spec)))
  }
  const follow = (value) => {
    if (!value || typeof value !== "object") return
    if (typeof value.$ref === "string" && value.$ref.startsWith("#/")) {
      keep(value.$ref.slice(2).split("/").map((key) => key.replace(/~1/g, "/").replace(/~0/g, "~")))
    }
    for (const each of Object.values(value)) follow(each)
  }
  keep(path)
  return kept
}
