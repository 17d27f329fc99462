// A Swagger UI plugin that shows how to call an operation with curl, Python and JavaScript.
const DEPTH_MAX = 4
const HINT = "A 401 response means that no token was sent. Select “Authorize” at the top and enter your token, or put it in TOKEN."

export function samples({ React }) {
  const make = React.createElement
  const block = (label, text) => make("details", { key: label }, make("summary", null, label), make("pre", { tabIndex: 0 }, text))
  return {
    wrapComponents: {
      responses: (Original, system) => (props) => {
        const document = system.specSelectors.specJson().toJS()
        const texts = write(document, props.path, props.method)
        return make("div", null,
          make("div", { className: "samples" }, make("h4", null, "Samples"), needsToken(document, props) && make("p", null, HINT), texts.map(([label, text]) => block(label, text))),
          make(Original, props))
      },
    },
  }
}

export function write(document, path, method) {
  const operation = document.paths[path][method]
  const url = document.servers[0].url + path
  const content = operation.requestBody?.content ?? {}
  const schema = content["application/json"]?.schema
  const body = schema ? sample(document, schema) : null
  return [["curl", curl(method, url, body)], ["Python", python(method, url, body)], ["JavaScript", javascript(method, url, body)]]
}

// Without its own `security`, an operation uses the document's. An empty one, or an empty alternative, needs no token.
function needsToken(document, { path, method }) {
  const security = document.paths[path][method].security ?? document.security ?? []
  return security.length > 0 && security.every((each) => Object.keys(each).length > 0)
}

const json = (value) => JSON.stringify(value, null, 2)

function curl(method, url, body) {
  const lines = [`curl -X ${method.toUpperCase()} "${url}"`, `-H "Authorization: Bearer $TOKEN"`]
  if (body !== null) lines.push(`-H "Content-Type: application/json"`, `-d '${json(body).replace(/'/g, "'\\''")}'`)
  return lines.join(" \\\n  ")
}

function python(method, url, body) {
  const value = body === null ? "" : `\n    json=json.loads(r"""${json(body)}"""),`
  return `import json, os\nimport httpx\n\nanswer = httpx.request(\n    "${method.toUpperCase()}",\n    "${url}",\n` +
    `    headers={"Authorization": f"Bearer {os.environ['TOKEN']}"},${value}\n)\nanswer.raise_for_status()\nprint(answer.text)`
}

function javascript(method, url, body) {
  const more = body === null ? "" : `\n  body: JSON.stringify(${json(body).replace(/\n/g, "\n  ")}),`
  const type = body === null ? "" : `, "Content-Type": "application/json"`
  return `const answer = await fetch("${url}", {\n  method: "${method.toUpperCase()}",\n` +
    `  headers: { Authorization: \`Bearer \${process.env.TOKEN}\`${type} },${more}\n})\nif (!answer.ok) throw new Error(await answer.text())\nconsole.log(await answer.text())`
}

// A sample value for a schema: for objects, the required fields or else the first.
function sample(document, given, depth = 0) {
  const schema = resolve(document, given)
  if (schema.examples?.length) return schema.examples[0]
  if (schema.default !== undefined && schema.default !== null) return schema.default
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum.find((each) => each !== null)
  const option = (schema.anyOf ?? schema.oneOf)?.find((each) => resolve(document, each).type !== "null")
  if (option) return sample(document, option, depth)
  const type = Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type
  if (type === "array") return depth < DEPTH_MAX && schema.items ? [sample(document, schema.items, depth + 1)] : []
  if (schema.properties && depth < DEPTH_MAX) {
    const names = schema.required?.length ? schema.required : Object.keys(schema.properties).slice(0, 1)
    return Object.fromEntries(names.map((name) => [name, sample(document, schema.properties[name], depth + 1)]))
  }
  return { integer: schema.minimum ?? 1, number: schema.minimum ?? 1, boolean: true, object: {} }[type] ?? text(schema)
}

function text(schema) {
  return { "date-time": "2026-11-20T09:00:00Z", date: "2026-11-20", uri: "https://example.com/", email: "ada@example.org" }[schema.format] ?? "text"
}

function resolve(document, schema) {
  if (!schema.$ref) return schema
  const { $ref, ...beside } = schema
  const found = $ref.slice(2).split("/").reduce((node, part) => node[part.replace(/~1/g, "/").replace(/~0/g, "~")], document)
  return { ...resolve(document, found), ...beside }
}
