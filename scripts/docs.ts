// Writes the references from schemas, and the comparison: `npm run docs`. A test checks that the pages are up to date.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { describeSettings } from '../src/config/settings-schema.ts';
import { stepTypes } from '../src/config/steps.ts';
import type { StepHandler } from '../src/flows/handlers/handler.ts';
import { manifestJsonSchema } from '../src/manifest/schema.ts';
import { type DocsTable, WEBHOOK_ROWS } from '../src/manifest/webhook-fields.ts';
import { comparisonPage, readComparison } from './compared.ts';
import { publisherPages } from './publisher-pages.ts';

const GENERATED = '<!-- Written by `npm run docs` from the schemas. Change those, not this page. -->';

interface Schema {
  readonly type?: string | readonly string[];
  readonly const?: string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly description?: string;
  readonly default?: unknown;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
}

/** The largest integer in a JSON Schema without another limit. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return 'object';
  if (schema.const !== undefined) return code(schema.const);
  if (schema.enum !== undefined) return schema.enum.map(code).join(', ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return [...new Set(choices.map(typeOf))].join(' or ');
  if (schema.type === 'array')
    return schema.items === undefined ? 'array' : `array of ${inParentheses(typeOf(schema.items))}`;
  const types = [schema.type ?? 'any JSON'].flat().join(' or ');
  const { minimum, exclusiveMinimum, maximum } = schema;
  const low = minimum === undefined || minimum === -NO_LIMIT ? '' : ` from ${minimum}`;
  const above = exclusiveMinimum === undefined ? '' : ` above ${exclusiveMinimum}`;
  const high =
    maximum === undefined || maximum === NO_LIMIT ? '' : above === '' ? ` to ${maximum}` : `, at most ${maximum}`;
  return `${types}${above}${low}${high}`;
}

const inParentheses = (types: string) => (types.includes(' or ') ? `(${types})` : types);
const code = (text: string) => `\`${text}\``;
const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Only plain values help a reader; a description explains the others. */
function defaultOf(schema: Schema, isRequired: boolean): string {
  if (isRequired) return 'required';
  const value = schema.default;
  return typeof value === 'object' || value === undefined ? '' : code(JSON.stringify(value));
}

function fieldTable(
  { properties = {}, required = [] }: Schema,
  only: readonly string[] = Object.keys(properties),
): string {
  const rows = only.map((name) => {
    const schema = properties[name];
    if (schema?.description === undefined) throw new Error(`${name} has no description`);
    return [code(name), typeOf(schema), defaultOf(schema, required.includes(name)), schema.description];
  });
  return table(['field', 'type', 'default', 'meaning'], rows);
}

/** The fields that most webhook triggers set; they come first. */
const USUAL: readonly (keyof typeof WEBHOOK_ROWS)[] = [
  'webhookSlug',
  'webhookSignatureScheme',
  'webhookHmacKey',
  'webhookNonceHeader',
  'webhookEventId',
  'webhookEnforcementMode',
  'webhookWhen',
];

/** The tables of a webhook trigger's other fields, in order. */
const WEBHOOK_TABLES: Readonly<Record<DocsTable, string>> = {
  endpoint: 'Endpoint and answers',
  runs: 'Events and runs',
  signature: 'Signature and keys',
  standards: 'Schemes `Jwt` and `HttpMessageSignatures`',
  replay: 'Replay',
  rateLimit: 'Rate limit',
  addresses: 'Addresses',
  bodySchema: 'Body schema',
  custom: 'Scheme `Custom`',
};

function webhookTables(inputs: Schema): string {
  const sections = Object.entries(WEBHOOK_TABLES).map(([table, title]) => {
    const fields = Object.entries(WEBHOOK_ROWS).flatMap(([field, { docs, readBy }]) => {
      const isOfCustom =
        readBy !== 'every scheme' && readBy.some((trait) => trait === 'custom' || trait === 'short spec');
      if (docs === 'custom' && !isOfCustom)
        throw new Error(`${field} is in the table of a scheme that does not read it`);
      return docs === table && !USUAL.some((name) => name === field) ? [field] : [];
    });
    return `**${title}**\n\n${fieldTable(inputs, fields)}`;
  });
  return [`**What most triggers set**\n\n${fieldTable(inputs, USUAL)}`, ...sections].join('\n\n');
}

function handlerSection(handler: StepHandler): string {
  const schema = z.toJSONSchema(handler.inputs, { io: 'input', unrepresentable: 'any' }) as Schema;
  const fields = Object.keys(schema.properties ?? {});
  const inputs = fields.length > 0 ? fieldTable(schema) : (NO_INPUTS[handler.type] ?? 'It has no inputs.');
  const secrets = handler.secretInputs.map(code).join(', ');
  const secretLine = secrets === '' ? '' : `\n\nInputs that may be \`env:NAME\` or \`file:PATH\`: ${secrets}.`;
  const about = STEP_TYPES[handler.type];
  if (about === undefined) throw new Error(`STEP_TYPES says nothing about ${handler.type}`);
  return `### ${handler.type}\n\n${about}\n\n${inputs}${secretLine}`;
}

/** What each built-in step type does, and its output. */
const STEP_TYPES: Readonly<Record<string, string>> = {
  NoOp: 'Does nothing. The output is `null`.',
  LogMessage: 'Writes one line to the log. The output is the message.',
  HttpRequest:
    'Calls a URL, and repeats the request if polling is enabled. The output is `{ "status", "headers", "body" }`. Each request has an\n' +
    '`Idempotency-Key` header that stays the same for all attempts of the step. It may call only public\n' +
    'addresses, unless `SLUICE_EGRESS_ALLOW` names others. It honours `Retry-After`. A step may have to wait for a rate limit of the\n' +
    'host, or until the host answers again: see [fan-out](operate.md#fan-out-without-drowning-the-receiver).\n\n' +
    '`signing` lets the receiver verify who sent a request. `"signing": { "scheme": "StandardWebhooks", "key": "env:KEY" }` signs id, time\n' +
    'and body according to [Standard Webhooks](https://www.standardwebhooks.com); the id is the same for all attempts.\n' +
    '`"signing": { "scheme": "Hmac", "key": "env:KEY", "header": "X-Signature", "prefix": "sha256=" }` puts an HMAC of the body into a\n' +
    'header (`algorithm` sha256, sha384 or sha512, `encoding` hex or base64).\n' +
    '`"tls": { "cert": "file:client.pem", "key": "file:client.key" }` presents a client certificate; `ca` replaces the public\n' +
    'certificate authorities.',
  Delay: 'Waits, also across restarts. Give `seconds` or `until`, not both. The output is `null`.',
  Transform: 'The output is `value`.',
  Fail: 'Fails the step with the code `failed_on_purpose`. The step is never retried.',
  WaitForSignal:
    'Waits for `POST /flows/api/runs/{id}/signals/{name}`. The output is the JSON body of that request. With `choices`, somebody without\n' +
    'access to the dashboard can answer by a link: see [approvals](approvals.md).',
  SendAlert:
    'Sends an alert to a target of `SLUICE_ALERTS`: see [alerts](alerts.md). The output is the answer of the target: `{ "status", "answer" }`.',
  ForEach:
    'Runs the child `steps` once for each item of `forEach`, `concurrencyLimit` iterations at once. Children read `loop.item` and\n' +
    '`loop.index`. The output is an array with the output of the last steps of each iteration.',
  RunFlow:
    'Runs another flow. That run reads `body`, at most 1 MiB, as `trigger.body`. The step waits for the run to end and holds no slot\n' +
    'while it waits. Its output is `{ "runId", "status", "output" }`, where `output` is the output of the last step, or of each of the\n' +
    'last steps by key. If the run fails, times out or is cancelled, the step fails and names the run; each retry starts a new run.\n' +
    'With `"wait": false` the output is `{ "runId" }`, and the step does not wait for the run. See\n' +
    '[flows that run flows](changing-flows.md#flows-that-run-flows).',
};

const NO_INPUTS: Readonly<Record<string, string>> = {
  NoOp: 'Any inputs are accepted and ignored.',
  ForEach:
    'It has no inputs: `forEach`, `concurrencyLimit` and `steps` are fields of the step. A list has 100000 items at\n' +
    'most, a manifest 10000 steps, those in loops included, and a loop of a run 1000000\n' +
    '([limits](operate.md#limits)).',
};

const partOf = (triggers: Schema | undefined, part: 'coalesce' | 'reconcile' | 'signals'): Schema => {
  const webhook = triggers?.oneOf?.find(({ properties }) => properties?.type?.const === 'webhook');
  return webhook?.properties?.[part] ?? {};
};

/** One table for each kind of log. */
function reconcileTables(reconcile: Schema): string {
  const forms = reconcile.oneOf ?? reconcile.anyOf ?? [reconcile];
  return forms.map((form) => fieldTable(form)).join('\n\n');
}

function manifestReference(): string {
  const schema = JSON.parse(JSON.stringify(manifestJsonSchema())) as Schema;
  const step = schema.$defs?.step ?? {};
  const triggers = schema.properties?.triggers?.additionalProperties as Schema | undefined;
  const inputsOf = (type: string) =>
    triggers?.oneOf?.find(({ properties }) => properties?.type?.const === type)?.properties?.inputs ?? {};
  const edges = step.properties?.runAfter?.additionalProperties as Schema | undefined;
  const handshake = inputsOf('webhook').properties?.webhookHandshake?.anyOf?.[0] ?? {};
  return `# Manifest reference

${GENERATED}

A manifest is one JSON file in the manifests folder and describes one flow. \`npx sluice check\` prints every mistake with its path.
\`"$schema": "./manifest.schema.json"\` lets an editor complete the fields and the inputs of each step type. If you have
your own step types or schemes, write your own schema: \`npx sluice schema -o manifests/manifest.schema.json\`. Structural keys
(\`id\`, \`RunAfter\`, …) may be written in any case. Trigger keys, step keys and the keys inside \`inputs\` must be exact.
Comments (\`// …\` and \`/* … */\`) and a comma after the last member are accepted, also in a deploy over the API; they are not stored.

[Publishers](publishers/README.md) has a complete manifest for each publisher, and the [examples](../examples/README.md) are whole set-ups
that run. [Expressions](expressions.md) explains \`\${…}\` and \`when\`, and [changing flows](changing-flows.md) what a deploy does with a
changed manifest.

## The file

${fieldTable(schema)}

### One at a time, in order

With \`serialize\`, runs for which the expression gives the same value never overlap, and start in the order in which their deliveries were
committed:

\`\`\`json
{ "serialize": "trigger.body.order.id", "serializeOnFailure": "stop" }
\`\`\`

- **All runs of the flow take part**: those of webhooks, schedules and people, of \`RunFlow\` and \`onFailure\`, redelivered and released ones. Runs
  with other keys do not wait. The expression reads \`trigger\` as step inputs do, and nothing else. A key is a text, a number or a boolean; a number
  and the same number as a text are the same key.
- **A waiting run** is in flight: it is pinned, counted and drained like any other, and can be cancelled. It shows the run before it
  (\`"waitingFor": [{ "for": "order", "runId": … }]\`, \`GET /flows/api/runs?waiting=order\`). Its \`timeoutSeconds\` begin when its turn comes. If a
  \`RunFlow\` step waits for the run, the time limits of that step and of its run apply from the start.
- **A failed run** lets the next one start (\`continue\`). Under \`stop\`, a run that ends as Failed or TimedOut holds its key: no other run with this
  key starts, and the attention list says so (\`order_stopped\`). The key is free again when the failed step is retried and the run succeeds, when the run is
  cancelled after a retry, or when somebody releases it: \`npx sluice release-order RUN\`, \`POST /flows/api/runs/{id}/release-order\`, or the button on its page. Retention keeps a run that holds its key.
- **A retry** of a run that has let the next one start waits behind all other runs of its key. So do redeliveries and re-runs.
- **Without a key**: if the expression fails, or gives null, an empty text, a list or an object, the run has no key. All such runs run one at a time,
  and the attention list says so (\`order_keyless\`).
- **Unverified deliveries** (Off and Audit, where the signature gate failed) have a separate order for each key. They wait for each other, but
  not for verified deliveries, and verified deliveries do not wait for them, so the two may overlap. They never hold a key. The same is true of runs that they
  start by \`RunFlow\` or \`onFailure\`, and of re-runs of those. Without a signature scheme every delivery counts as verified, so anyone who can send a
  delivery can hold up a key.
- If two runs would wait for each other, directly or through other runs and flows, Sluice refuses the second wait: a \`RunFlow\` step fails with
  \`order_deadlock\`, and the retry of a run gets 409 \`order_deadlock\`.

## Triggers

A trigger has a \`type\` (\`manual\`, \`cron\` or \`webhook\`) and \`inputs\`. A \`manual\` trigger may have any inputs;
\`POST /flows/api/flows/{id}/trigger\` starts it. Every flow can be started this way. Next to \`inputs\`, a trigger may have [\`searchKeys\`](#search-keys), and a
webhook trigger [\`coalesce\`](#one-run-for-several-deliveries), [\`reconcile\`](#deliveries-that-never-arrived) and [\`signals\`](#answers-to-steps-that-wait).

\`"enabled": false\` next to them switches a trigger off without deleting it: a webhook answers 403 \`flow_disabled\` and keeps a record of each
delivery, which can be redelivered later; a schedule does not fire; a manual trigger starts nothing. A deploy that switches a trigger off is a caution.

### cron

${fieldTable(inputsOf('cron'))}

### webhook

Publishers call \`POST /flows/api/webhook/{webhookSlug}\`. A missing field takes its value from the
[setting](settings.md) of the same name, if there is one. [Secure it](secure.md) explains what the gates do.

${webhookTables(inputsOf('webhook'))}

\`webhookRespond\` is an object ([an answer from the flow](#an-answer-from-the-flow)):

${fieldTable(inputsOf('webhook').properties?.webhookRespond ?? {})}

\`webhookHandshake\` is a list of such objects, or one ([answers to tests of the endpoint](#answers-to-tests-of-the-endpoint)):

${fieldTable(handshake)}

Its \`answer\` has:

${fieldTable(handshake.properties?.answer ?? {})}

\`webhookResponse\` is an object:

${fieldTable(inputsOf('webhook').properties?.webhookResponse ?? {})}

### One run for each event

Many publishers sign each retry again, so that replay protection takes it for a new delivery. \`webhookEventId\` names the event, and a second
delivery of the same event starts no run. Its answer is 200 with the first run and \`"duplicate": true\`, and its record has the outcome \`duplicate\`.

\`\`\`json
{
  "type": "webhook",
  "inputs": { "webhookSlug": "orders", "webhookEventId": "body.order.id + ':' + body.status", "webhookEventIdDays": 7 }
}
\`\`\`

- **By default** it is the event id of the scheme, if the publisher documents one and signs it: \`body.id\` of Stripe,
  \`body.event_id\` of Slack, Paddle and Square, and the signed id header of Standard Webhooks and Twitch. \`"off"\` turns it off. Other schemes
  have none until you name one.
- Name an id of the event, not of the object that changed: all events of one order have the same order id, so only the first would start
  a run. Never use it if one delivery is a list of events, as with SendGrid and HubSpot.
- A number and a text with the same digits are one id: \`7\` and \`"7"\`, but not \`7\` and \`7.0\`. If a publisher numbers one kind of event and names
  another by text, put the kind in front: \`"body.type + ':' + string(body.id)"\`.
- Each trigger of a flow knows its events for \`webhookEventIdDays\`; a renamed trigger keeps them.
- Only verified deliveries count. A delivery that failed the signature gate under Off or Audit does not make its event known, and is never answered as
  a duplicate. Without a signature scheme everyone can name any event; \`sluice check\` warns of this, and of ids that the scheme does not sign.
- If the value is missing, empty, or neither a text nor a number, the delivery names no event and its run starts. The record says why
  (outcome \`unevaluated\`), and so does the attention list (\`expression_failed\`). A kind of delivery without the id of the scheme, such as a
  slash command of Slack, does not count as missing.

### Filter before a run

\`webhookWhen\` is a condition over \`body\` and \`headers\`. If it is false, no run starts:

\`\`\`json
{
  "type": "webhook",
  "inputs": { "webhookSlug": "issues", "webhookWhen": "body.action == 'opened' && !body.sender.type.startsWith('Bot')" }
}
\`\`\`

The answer is 200 with \`"filtered": true\`. The delivery is recorded with the outcome \`filtered\` and the whole body, and keeps its nonce; its
event and its \`Idempotency-Key\` stay free. After a change of the condition you can redeliver it: \`npx sluice redeliver --filtered\`. A condition
that fails, or gives neither true nor false, never drops anything: the run starts, and the record and the attention list say so. A closed flow
answers 403 without evaluating the condition, and a filtered delivery is never held.

### One run for several deliveries

A publisher may report the same object many times within a second. With \`coalesce\`, deliveries with the same key become one run:

\`\`\`json
{
  "type": "webhook",
  "inputs": { "webhookSlug": "stock" },
  "coalesce": { "key": "body.sku", "quietSeconds": 2, "maxSeconds": 30, "collect": 100 }
}
\`\`\`

${fieldTable(partOf(triggers, 'coalesce'))}

The first delivery commits the run, which waits (\`waitingFor\`: \`coalesce\`). Each of the others joins it in its own transaction: its answer
is 200 with the id of that run and \`"coalesced": true\`, and its record has the outcome \`coalesced\`. Steps read all of them in the order of
their arrival as \`trigger.deliveries\`, a list of \`{ id, receivedAt, headers, body }\`; \`trigger.body\` and \`trigger.headers\` are those of the
newest.

- 1 MiB of bodies and headers starts the run at once, as \`collect\` deliveries do. The next delivery opens another run.
- The run keeps the revision of its first delivery, and a delivery after a deploy opens a new one. The time limit of the run
  (\`timeoutSeconds\`) begins when it starts. If you cancel the run while it waits, none of its deliveries is processed.
- Duplicates and filtered deliveries join no run. Redeliveries always have their own run, and so have deliveries whose key is missing, empty,
  or neither a text nor a number: their records say why (outcome \`unevaluated\`), and so does the attention list (\`expression_failed\`).
- Verified and unverified deliveries never share a run, whatever the mode. Nor do deliveries with different keys of \`serialize\`.
- Held deliveries with the same key share a run too, which starts when the flow resumes. A re-run has all deliveries of its source.
- The run has the [search keys](#search-keys) of its first delivery. Each delivery has its own search keys, and its record links to the run.

### Deliveries that never arrived

\`reconcile\` names the log in which the publisher keeps the deliveries that it sent. Deliveries that never arrived are fetched from there and accepted, once:

\`\`\`json
{
  "type": "webhook",
  "inputs": { "webhookSlug": "push", "webhookSignatureScheme": "GitHub", "webhookHmacKey": "env:GITHUB_SECRET" },
  "reconcile": { "from": "github", "repo": "octo/shop", "hook": 123456, "token": "env:GITHUB_TOKEN" }
}
\`\`\`

${reconcileTables(partOf(triggers, 'reconcile'))}

[Reconcile](reconcile.md) says what is fetched, what is verified, and what is reported.

### One URL, several flows

Triggers of several flows can share a slug if each of them sets \`webhookShared\`:

\`\`\`json
{
  "type": "webhook",
  "inputs": { "webhookSlug": "orders", "webhookShared": true, "webhookWhen": "body.total > 1000" }
}
\`\`\`

A delivery is verified once and has one record. It starts one run for each trigger that accepts it, all in one transaction, or none:

\`\`\`json
{ "runId": "…", "deliveryId": "…", "runs": [{ "flowId": "…", "triggerKey": "…", "runId": "…" }] }
\`\`\`

\`runId\` is the first of \`runs\`. The record has \`runs\` too, with what became of the delivery at each trigger (\`outcome\`), and is listed under
each of the flows; metrics and charts count it once, under the flow that the record names.

- Everything that decides who gets in, and what is answered, must be the same for all of them: keys, scheme, lists, limits, nonce header, mode,
  \`webhookResponse\`, \`webhookDuplicateResponse\`. Otherwise the load is refused. Filters, events, search keys and holding may differ.
- Change the gates of all of them in one deploy: \`PUT /flows/api/flows\` with an array, or a folder. If keys are read again and differ,
  the slug answers 503 until they are the same, and the attention list says so.
- A nonce or an \`Idempotency-Key\` that one flow knows counts for all: the answer is 409, or a duplicate, and nothing starts. Events are known to
  each flow separately.
- The answer is 200 if any flow accepts the delivery, \`"filtered": true\` if all filter it, 403 only if all are closed. Each flow holds
  deliveries separately.
- The flow with the lowest id provides the gates and the rate limit; \`runs\` is in the order of the ids.
- The URL with the id of a flow reaches only that flow.
- Setting \`webhookShared\` on a deployed slug is a change of access (\`--allow access\`), and a flow that joins the slug is reported as \`wider\`. A trigger with
  \`webhookLearnKey\` cannot share a slug.
- A redelivery goes to all flows that share the slug now. If one flow has a run of the delivery, re-run that run instead. A delivery that only another
  flow filtered then cannot be redelivered to that flow alone.

### Answers to tests of the endpoint

Some publishers test the endpoint with a request before they deliver. Schemes answer the tests of their own publishers. \`webhookHandshake\`
answers others:

\`\`\`json
{
  "type": "webhook",
  "inputs": {
    "webhookSlug": "audience",
    "webhookHandshake": [
      { "method": "GET", "when": "has(query.challenge)", "answer": { "body": "\${query.challenge}" } },
      { "method": "GET", "answer": {} },
      {
        "method": "POST",
        "when": "body.type == 'confirmation'",
        "answer": { "headers": { "x-code": "\${headers['x-code']}" }, "body": { "code": "\${body.code}" } }
      }
    ]
  }
}
\`\`\`

- \`when\` and the placeholders \`\${ }\` of the answer are CEL over \`query\`, \`headers\` (lower-case names) and \`body\`, of at most 64 KiB. The first
  handshake of the method whose \`when\` is true answers. One whose \`when\` fails, for example because a field is missing, is skipped.
- **It starts no run** and needs no signature: anyone who sends such a request gets the answer. It must pass the address lists and the rate limit.
  A POST needs \`when\`, because a request for which it is true is never a delivery. The handshakes of the scheme come first.
- If an expression of the answer fails, the answer is 400, and the delivery log says why. The status is one from 200 to 299, the body has at most 16 KiB, a header 1 KiB.
- An answer does nothing in a browser: it is sent like [an answer from the flow](#an-answer-from-the-flow), and headers that a browser, a proxy or
  the connection would act on, such as \`Set-Cookie\` and \`Location\`, are refused when the manifest is loaded.
- **A GET never starts a run.** A device that can only send GET requests can get an answer, but cannot deliver anything.
- **Azure Event Grid** needs no field: its validation event is answered if the trigger names no scheme, or \`Token\`, \`Basic\`, \`Jwt\` or
  \`HttpMessageSignatures\`; and the OPTIONS of CloudEvents for every trigger, unless the trigger has its own handshake for OPTIONS.
- Triggers that share a slug have the same handshakes.

### An answer from the flow

\`webhookRespond\` answers an accepted delivery with the output of a step of its run:

\`\`\`json
{
  "id": "5f1c1a3e-90b1-4c86-a4a5-0d9f6a8f7c11",
  "name": "slash-command",
  "version": "1",
  "triggers": {
    "command": {
      "type": "webhook",
      "inputs": { "webhookSlug": "command", "webhookRespond": { "step": "reply", "withinSeconds": 2.5 } }
    }
  },
  "steps": {
    "reply": {
      "type": "Transform",
      "inputs": {
        "value": {
          "status": 200,
          "headers": { "content-type": "application/json" },
          "body": { "text": "Working on \${trigger.body.text}" }
        }
      }
    },
    "work": { "type": "NoOp", "runAfter": { "reply": ["Succeeded"] } }
  }
}
\`\`\`

The run is committed first. Then the request waits for the step, whichever replica runs it. The output of the step is an object; each part may
be missing: \`status\` (200 to 299; 200), \`headers\` (\`content-type\`, \`content-language\` and \`cache-control\`; others are left out), \`body\` (a text, or
JSON).

- The content type is JSON (\`application/json\`, or another that ends in \`+json\`), \`text/plain\` or \`text/csv\`, always in UTF-8. XML is sent as
  \`text/plain\`: browsers run scripts in XML, and the endpoint has the same origin as the dashboard. No other type is allowed.
- If the step is late, fails or is skipped, the publisher gets the fixed answer (the ids, or \`webhookResponse\`), and the run goes on. The same happens
  if the output does not have this form or is larger than 256 KiB, because with any other status the publisher would send the committed delivery again.
  The attention list then has \`answer_unfit\`.
- \`withinSeconds\` counts from the arrival of the delivery, 0.1 to 25. Put the step first, and slow work behind it.
- Duplicates, filtered and held deliveries get the fixed answer at once. At most 200 senders, with 16 MiB of bodies, wait in a process. Beyond that, the
  oldest senders of the flow that uses most get the fixed answer, to make room for other flows, and \`answer_unfit\` counts them. A sender that hangs up frees its
  place; a stop answers all waiting senders.
- The answer does not depend on the signature: under Off and Audit an unverified sender gets the same answer as the publisher. If the answer is of use
  to a stranger, set a scheme and Enforce; \`sluice check\` warns of this.
- The load is refused if the step does not exist, is in a loop, or can never succeed.

The expressions of a delivery together may take 100 000 evaluation steps (4 ms). They read a body of any size. Sluice decides in this order,
and the first that applies answers: nonce, \`Idempotency-Key\`, event, condition, hold, a run that waits for more deliveries, a run of its own.

### Answers to steps that wait

A trigger with \`signals\` starts no runs: its deliveries answer \`WaitForSignal\` steps of the flow, as [approvals](approvals.md#a-webhook-answers) describes.

${fieldTable(partOf(triggers, 'signals'))}

### Search keys

\`searchKeys\` of a \`webhook\` or \`manual\` trigger names values by which you can find its deliveries and runs:

\`\`\`json
{
  "type": "webhook",
  "inputs": { "webhookSlug": "orders", "webhookSignatureScheme": "Shopify", "webhookHmacKey": "env:SHOPIFY_KEY" },
  "searchKeys": { "order": "body.name", "shop": "headers.x-shopify-shop-domain" }
}
\`\`\`

Each is a name (a letter, then letters, digits, "_" and "-") and an [expression](expressions.md) over \`body\` and \`headers\`; at most 8.
Its value is a string, a number or a boolean; values over 200 characters are cut off, and end with "…". The lists of deliveries and runs
show the values. A search finds a value or its beginning at any age, also in refused deliveries; \`?searchKeys=order:SO-1010\` finds the
whole value of one key.

A trigger with a signature scheme has the keys \`event\` (the publisher's event type) and \`id\` (its id of the event or delivery) by
default, if the publisher sends them. Deliveries of \`Generic\` and \`Custom\` that are CloudEvents, in binary or structured mode, have them
too, and \`OPTIONS\` with \`WebHook-Request-Origin\` is answered for every trigger. To start one run for each structured CloudEvent, set
\`"webhookEventId": "body.source + ' ' + body.id"\`. Your own keys replace them; \`"searchKeys": {}\` removes them. If a trigger gets several kinds of
deliveries, use \`event\` for the value that distinguishes them: Sluice then checks [what flows read](operate.md#what-flows-read)
separately for each kind.

- Values are stored and shown in plain text, even with \`SLUICE_STORE_KEY\`. A key that reads a header with a credential or a signature is
  refused when the manifest loads; a body field that looks like a credential gets a warning.
- A key that fails for a delivery has no value there, and the delivery's gate results say why. It never causes a refusal. All keys of a
  delivery together may take 10 000 evaluation steps (0.4 ms). A body over 64 KiB is read only if it is JSON that was parsed anyway.
  Bodies that an IP list or a rate limit refuses are never read.
- A deploy changes the keys of later deliveries only. Runs and deliveries keep their values; a re-run has the values of its source.

## Steps

${fieldTable(step)}

### runAfter

An array of statuses, such as \`["Succeeded"]\`, or an object:

${fieldTable(edges?.anyOf?.[1] ?? {})}

A step runs when all steps in its \`runAfter\` have ended with a listed status. The step is skipped if one of them ended with another
status, or if \`when\` is \`false\`. A \`when\` that cannot be evaluated fails the step.

Every wait (for a time, a retry, a signal or a poll) is a database row with a due time, so it survives a restart.

### retry

${fieldTable(step.properties?.retry ?? {})}

## Step types

\`GET /flows/api/handlers\` lists them with the JSON Schema of their inputs, [your own](extending.md) included.

${stepTypes().handlers.map(handlerSection).join('\n\n')}
`;
}

/** The settings by topic: title, variables. */
const SETTING_GROUPS: readonly (readonly [string, RegExp])[] = [
  [
    'What most people set',
    /_(HOST|PORT|PUBLIC_URL|TRUSTED_PROXIES|DATABASE_URL|STORE_KEY|DASHBOARD_USER|DASHBOARD_PASSWORD|DASHBOARD_TOKEN|ENFORCEMENT_MODE|STRICT_MANIFESTS|RUN_RETENTION_DAYS|ALERTS)$/,
  ],
  ['Stop and evidence', /_(EVIDENCE_KEY|SHUTDOWN_GRACE_SECONDS)$/],
  ['PostgreSQL and replicas', /_(DATABASE_.*|REPLICA_NAME|DRAIN_SECONDS)$/],
  ['Dashboard', /_(DASHBOARD_AUTH|TOKENS|AUTH_.*_HEADER)$/],
  ['Gates and proxies', /_(FORWARDED_HEADER_DEPTH|MAX_BODY_BYTES|REPLAY_.*|NONCE_.*|RATE_LIMIT_.*|ALLOW_LEGACY_SHA1)$/],
  ['Outgoing requests', /_(EGRESS_ALLOW|OUTGOING_HOSTS|CIRCUIT_FAILURES)$/],
  ['Manifests and deploys', /_(MANIFESTS|MANIFEST_SECRETS|REFUSED_DEPLOYS)$/],
  ['What is kept', /_(HOLD|HELD|REFUSED|DELIVERY|RUN)_/],
  ['Steps, alerts, log and traces', /./],
];

function settingsReference(): string {
  let left = describeSettings();
  const sections = SETTING_GROUPS.map(([title, pattern]) => {
    const settings = left.filter(({ variable }) => pattern.test(variable));
    left = left.filter((setting) => !settings.includes(setting));
    const rows = settings.map(({ variable, name, accepts, meaning, default: byDefault }) => [
      `${code(variable)}<br>${code(name)}`,
      byDefault === undefined ? '' : code(byDefault),
      accepts,
      meaning,
    ]);
    return `## ${title}\n\n${table(['variable, option', 'default', 'accepted', 'meaning'], rows)}`;
  });
  return `# Settings reference

${GENERATED}

Settings are environment variables. A [config module](extending.md) may set the same options by name; the environment wins. The service does
not start with a wrong value or a misspelt variable; it prints one line for each. A name that was a setting once is ignored, with one warning.
\`npx sluice serve --help\` prints this list.

The service and every command first read a file \`.env\` in the working directory, as Node's \`--env-file\` does: a variable that is
already set wins over the file. \`--env-file FILE\` names another file; if it does not exist, Node itself says so and ends with 9. \`npx sluice serve\` takes \`--host\`, \`--port\`, \`--manifests\` and
\`--database\`, which win over both.

\`SLUICE_CONFIG\` is the path of the config module; without it, Sluice reads \`sluice.config.ts\`, \`.mts\`, \`.js\` or \`.mjs\` in the working
directory, if there is one. The standard \`OTEL_*\` variables configure [traces](operate.md#traces). Passwords, tokens and \`SLUICE_STORE_KEY\` may be
\`env:NAME\` or \`file:PATH\`.

${sections.join('\n\n')}
`;
}

/** The page with one line per feature: the first sentence of its README. */
function withFeatures(page: string): string {
  const folder = resolve(import.meta.dirname, '../src/features');
  const lines = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => {
      const [, sentence = ''] =
        /^# .*\n\n([\s\S]*?)\.\s/.exec(readFileSync(join(folder, name, 'README.md'), 'utf8')) ?? [];
      return `| [${name}](../src/features/${name}/README.md) | ${sentence.replaceAll('\n', ' ')} |\n`;
    });
  const at = page.indexOf('| feature |');
  return `${page.slice(0, at)}| feature | |\n|---|---|\n${lines.sort().join('')}`;
}

/** Text of each page made from schemas or data, by its path in the repository. */
export function references(): Readonly<Record<string, string>> {
  return {
    'docs/manifest.md': manifestReference(),
    'docs/settings.md': settingsReference(),
    'docs/compared.md': comparisonPage(readComparison()),
    'docs/ARCHITECTURE.md': withFeatures(readFileSync(resolve(import.meta.dirname, '../docs/ARCHITECTURE.md'), 'utf8')),
    ...publisherPages(),
  };
}

if (process.argv[1] === import.meta.filename) {
  for (const [path, text] of Object.entries(references()))
    writeFileSync(resolve(import.meta.dirname, '..', path), text);
}
