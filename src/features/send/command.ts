import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { Command } from 'commander';
import { type CommandContext, CommandError, openContext, reporting, serviceUrl, TO } from '../../commands/context.ts';
import { noSuch } from '../../commands/lists.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { processEnvironment } from '../../config/settings.ts';
import { formatIssue } from '../../manifest/issues.ts';
import { maskRefusedUrl, maskUrl } from '../../manifest/mask.ts';
import { resolveSecret, secretReader } from '../../manifest/read-secret.ts';
import type { WebhookTrigger } from '../../manifest/webhook-inputs.ts';
import { print } from '../../telemetry/terminal.ts';
import { resolveScheme } from '../../webhooks/schemes/resolve.ts';
import {
  randomKey,
  type SignedDelivery,
  type SigningRequest,
  signDelivery,
  signsWithSameKey,
} from '../../webhooks/schemes/sign.ts';
import { jsonSample, type SignatureSpec } from '../../webhooks/schemes/spec.ts';
import { isSharedSecret, signByStandard } from '../../webhooks/schemes/standards/sign.ts';
import type { StandardScheme } from '../../webhooks/schemes/standards/standard.ts';
import { timestampText } from '../../webhooks/schemes/values.ts';

interface SendOptions {
  readonly to?: string;
  readonly manifests?: string;
  readonly body?: string;
  readonly contentType?: string;
  readonly header: readonly string[];
  readonly id?: string;
  readonly age: string;
  readonly key?: string;
  readonly wrongKey?: true;
  readonly repeat: string;
  readonly dryRun?: true;
}

function makeSend(): Command {
  const append = (value: string, before: readonly string[]) => [...before, value];
  return new Command('send')
    .helpGroup(HELP.daily)
    .description('Sign a delivery as the publisher would and send it to a webhook trigger of the manifests')
    .argument('<slugOrId>', 'slug of a trigger, or GUID of a flow for its first webhook trigger')
    .option('--to <url>', TO)
    .option('--manifests <folder>', 'the folder of manifests; default: the manifests folder of the settings')
    .option('--body <file>', 'file to send instead of the sample; - for standard input')
    .option('--content-type <type>', 'content type of the body')
    .option('--header <header>', 'another header, as "Name: value"; may be given several times', append, [])
    .option('--id <id>', 'delivery id; if the trigger names a nonce header, sending the same id twice repeats a nonce')
    .option('--age <seconds>', 'sign with a timestamp this many seconds in the past; negative for the future', '0')
    .option('--key <key>', 'sign with this key instead of the trigger’s: env:NAME, file:PATH, or plain text')
    .option('--wrong-key', 'sign with a random key, so that verification fails')
    .option('--repeat <times>', 'send the same delivery this many times, one after the other', '1')
    .option('--dry-run', 'print the request without sending it')
    .addHelpText('after', '\nExits with 0 if every answer is a 2xx, with 1 if not, with 2 if nothing could be sent.')
    .action(reporting(send));
}

async function send(slugOrId: string, options: SendOptions): Promise<void> {
  const times = repetitions(options.repeat);
  const context = await openContext(options.manifests);
  const trigger = findTrigger(context, slugOrId);
  const request = await signedRequest(context, trigger, options);
  if (options.dryRun) return printRequest(request);
  for (let left = times; left > 0; left -= 1) await post(request);
}

function findTrigger({ flows, issues }: CommandContext, slugOrId: string): WebhookTrigger {
  const wanted = slugOrId.toLowerCase();
  const triggers = flows.flatMap((flow) => flow.webhooks);
  const found =
    triggers.find(({ inputs }) => inputs.webhookSlug?.toLowerCase() === wanted) ??
    triggers.find(({ flowId }) => flowId === wanted);
  if (found !== undefined) return found;
  const known = triggers.map(({ inputs, flowId }) => inputs.webhookSlug ?? flowId);
  const broken = issues.filter((issue) => issue.severity === 'error').map((issue) => `\n${formatIssue(issue)}`);
  throw new CommandError(`${noSuch('webhook', slugOrId, known)}${broken.join('')}`);
}

interface Request {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** For schemes without their own sample. */
const ANY_SAMPLE = jsonSample({ message: 'hello from sluice send' });

async function signedRequest(context: CommandContext, trigger: WebhookTrigger, options: SendOptions): Promise<Request> {
  const scheme = resolveScheme(context.extensions.gates.settings.schemes, trigger.inputs, trigger.keys);
  if (scheme?.kind === 'verifier') {
    throw new CommandError(`The scheme "${scheme.verifier.name}" is a verifier in code; only its publisher can sign`);
  }
  const spec = scheme?.kind === 'spec' ? scheme.spec : undefined;
  if (spec?.certificate !== undefined) {
    throw new CommandError(`${spec.name} signs with its own certificate; only the publisher can sign`);
  }
  const publisher = scheme?.kind === 'standard' ? scheme.standard.publisher : undefined;
  const sample = spec?.sample ?? publisher?.sample ?? ANY_SAMPLE;
  const body = options.body === undefined ? Buffer.from(sample.body) : await readBody(options.body);
  const contentType = options.contentType ?? (options.body === undefined ? sample.contentType : 'application/json');
  const path = `/flows/api/webhook/${trigger.inputs.webhookSlug ?? trigger.flowId}`;
  const target = `${baseUrl(options.to ?? serviceUrl(context.settings))}${path}`;
  const deliveryId = options.id ?? randomUUID();
  const timestampMs = Date.now() - integerOption('--age', options.age) * 1000;
  const plain = {
    ...sample.headers,
    'content-type': contentType,
    ...namedHeaders(trigger, deliveryId, timestampMs),
  };
  const own = ownHeaders(options);
  if (scheme === undefined) return { url: target, headers: { ...plain, ...own }, body };
  const url = publicUrlOf(trigger, { publicUrl: context.settings.publicUrl, path, target });
  if (scheme.kind === 'standard') {
    const { standard } = scheme;
    const key = standardKey(trigger, standard, options);
    const sent = { ...plain, ...own };
    const signed = await signByStandard({ standard, key, body, url, deliveryId, timestampMs, headers: sent });
    return { url: target, headers: { ...sent, ...lowerCase(signed), ...own }, body };
  }
  const key = signingKey(trigger, scheme.spec, options);
  const signed = sign({ spec: scheme.spec, key, body, url, deliveryId, contentType, timestampMs });
  return {
    // The service compares the received query with the configured one; Twilio's body hash is a part of the query.
    url: `${target}${/\?[^#]*/.exec(signed.url)?.[0] ?? ''}`,
    headers: { ...plain, ...lowerCase(signed.headers), ...own },
    body: signed.body,
  };
}

/** The URL that the publisher would have been given. */
function publicUrlOf(
  { inputs }: WebhookTrigger,
  { publicUrl, path, target }: { publicUrl: string | undefined; path: string; target: string },
): string {
  if (inputs.webhookPublicUrl !== undefined) return inputs.webhookPublicUrl;
  return publicUrl === undefined ? target : `${publicUrl}${path}`;
}

/** Headers that the trigger names. A scheme's own headers take precedence over these. */
function namedHeaders({ inputs }: WebhookTrigger, deliveryId: string, timestampMs: number): Record<string, string> {
  const headers: Record<string, string> = {};
  if (inputs.webhookNonceHeader !== undefined) headers[inputs.webhookNonceHeader] = deliveryId;
  if (inputs.webhookTimestampHeader !== undefined) {
    headers[inputs.webhookTimestampHeader] = timestampText(timestampMs, 'seconds');
  }
  return lowerCase(headers);
}

/** One spelling per header: the same header twice would be joined into one value. */
function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.trim().toLowerCase(), value]));
}

/** If the scheme cannot sign with a key or body, the user must correct it. */
function sign(request: SigningRequest): SignedDelivery {
  try {
    return signDelivery(request);
  } catch (error) {
    throw new CommandError(`${request.spec.name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function ownHeaders({ header }: SendOptions): Record<string, string> {
  return Object.fromEntries(
    header.map((line) => {
      const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? [];
      if (name === undefined || value === undefined)
        throw new CommandError(`--header "${line}": expected "Name: value"`);
      return [name.toLowerCase(), value];
    }),
  );
}

function baseUrl(to: string): string {
  if (!/^https?:\/\/[^?#]+$/i.test(to) || !URL.canParse(to))
    throw new CommandError(`--to "${maskRefusedUrl(to)}": expected an absolute URL such as http://127.0.0.1:3000`);
  const { username, password } = new URL(to);
  if (username !== '' || password !== '') {
    throw new CommandError(
      `--to "${maskUrl(to)}": give the credentials with --header "Authorization: …", not in the URL`,
    );
  }
  return to.replace(/\/+$/, '');
}

function repetitions(text: string): number {
  const times = integerOption('--repeat', text);
  if (times < 1 || times > 10_000) throw new CommandError(`--repeat "${text}": expected an integer from 1 to 10000`);
  return times;
}

function integerOption(name: string, text: string): number {
  if (!/^-?\d{1,12}$/.test(text)) throw new CommandError(`${name} "${text}": expected an integer`);
  return Number(text);
}

async function readBody(file: string): Promise<Buffer> {
  try {
    return file === '-' ? await buffer(process.stdin) : await readFile(file);
  } catch (error) {
    throw new CommandError(`--body ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function printRequest({ url, headers, body }: Request): void {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  print(`POST ${url}\n${lines.join('\n')}\n\n${body.toString()}\n`);
}

async function post({ url, headers, body }: Request): Promise<void> {
  let response: Response;
  try {
    response = await fetch(url, { method: 'POST', headers, body: Uint8Array.from(body) });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new CommandError(`POST ${maskUrl(url)}: ${cause}; is the service running?`);
  }
  print(`${response.status} ${await response.text()}\n`);
  if (!response.ok) process.exitCode = 1;
}

/** The key to sign with: a random one, or the given one, else the trigger's own. */
function signingKey(
  { triggerKey, keys }: Pick<WebhookTrigger, 'triggerKey' | 'keys'>,
  spec: SignatureSpec,
  options: { readonly key?: string; readonly wrongKey?: true },
): string {
  if (options.wrongKey) return randomKey(spec);
  if (options.key !== undefined) return givenKey(options.key);
  if (!signsWithSameKey(spec)) {
    throw new CommandError(
      `${spec.name} signs with a private key, and the trigger has only the public one: create your own key pair, and give its private key with --key`,
    );
  }
  const key = keys.current ?? keys.previous;
  if (key !== undefined) return key;
  throw new CommandError(`The trigger "${triggerKey}" has no webhookHmacKey to sign with; give a key with --key`);
}

/** For schemes by a standard, which sign only with a secret. */
function standardKey(
  { triggerKey, keys }: Pick<WebhookTrigger, 'triggerKey' | 'keys'>,
  standard: StandardScheme,
  options: { readonly key?: string; readonly wrongKey?: true },
): string {
  if (options.wrongKey) return randomBytes(32).toString('hex');
  const key = options.key === undefined ? (keys.current ?? keys.previous) : givenKey(options.key);
  if (key !== undefined && isSharedSecret(standard, key)) return key;
  if (key === undefined && standard.rule.keySetUrl === undefined) {
    throw new CommandError(`The trigger "${triggerKey}" has no webhookHmacKey to sign with; give a key with --key`);
  }
  throw new CommandError(`The trigger "${triggerKey}" verifies with a public key: only its publisher can sign`);
}

function givenKey(text: string): string {
  const readSecret = secretReader({ env: processEnvironment(), baseFolder: process.cwd() });
  const secret = resolveSecret(text, readSecret);
  if ('error' in secret) throw new CommandError(`--key: ${secret.error}`);
  return secret.value;
}

export const sendCommand: CommandPart = { name: 'send', commands: [makeSend] };
