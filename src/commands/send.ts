import { randomBytes, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { Command } from 'commander';
import type { WebhookTrigger } from '../model/manifest.ts';
import { resolveScheme } from '../webhooks/schemes/resolve.ts';
import { signDelivery } from '../webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../webhooks/schemes/spec.ts';
import { type CommandContext, CommandError, openContext, reporting } from './context.ts';
import { sampleOf } from './samples.ts';

interface SendOptions {
  readonly to: string;
  readonly manifests?: string;
  readonly body?: string;
  readonly contentType?: string;
  readonly header: readonly string[];
  readonly id?: string;
  readonly age: string;
  readonly wrongKey?: true;
  readonly repeat: string;
  readonly dryRun?: true;
}

type SentTrigger = Omit<WebhookTrigger, 'revision'>;

export function sendCommand(): Command {
  const append = (value: string, before: readonly string[]) => [...before, value];
  return new Command('send')
    .description('Sign a delivery as the publisher would and send it to a webhook trigger of the manifests')
    .argument('<slugOrId>', 'slug of a trigger, or GUID of a flow for its first webhook trigger')
    .option('--to <url>', 'where the service listens', 'http://127.0.0.1:3000')
    .option('--manifests <folder>', 'the folder of manifests; the one of the settings where not given')
    .option('--body <file>', 'what to send instead of the sample; - for standard input')
    .option('--content-type <type>', 'content type of the body')
    .option('--header <header>', 'another header, as "Name: value"; may be given several times', append, [])
    .option('--id <id>', 'delivery id; give the same one twice to send a repeated nonce')
    .option('--age <seconds>', 'sign as if it were so long ago; negative for the future', '0')
    .option('--wrong-key', 'sign with a key that nobody has')
    .option('--repeat <times>', 'send the very same delivery so many times', '1')
    .option('--dry-run', 'print the request, send nothing')
    .addHelpText('after', '\nThe exit code is 0 when every answer is a 2xx, else 1; 2 when nothing could be sent.')
    .action(reporting(send));
}

async function send(slugOrId: string, options: SendOptions): Promise<void> {
  const context = await openContext(options.manifests);
  const trigger = findTrigger(context, slugOrId);
  const request = await signedRequest(context, trigger, options);
  if (options.dryRun) return printRequest(request);
  for (let left = integerOption('--repeat', options.repeat); left > 0; left -= 1) await post(request);
}

function findTrigger({ flows, issues }: CommandContext, slugOrId: string): SentTrigger {
  const wanted = slugOrId.toLowerCase();
  const triggers = flows.flatMap((flow) => flow.webhooks);
  const found =
    triggers.find(({ inputs }) => inputs.webhookSlug?.toLowerCase() === wanted) ??
    triggers.find(({ flowId }) => flowId === wanted);
  if (found !== undefined) return found;
  const known = triggers.map(({ inputs, flowId }) => inputs.webhookSlug ?? flowId).join(', ') || 'none';
  const broken = issues.some((issue) => issue.severity === 'error')
    ? '; some manifests do not load, see sluice check'
    : '';
  throw new CommandError(`There is no webhook "${slugOrId}"; there are: ${known}${broken}`);
}

interface Request {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

async function signedRequest(context: CommandContext, trigger: SentTrigger, options: SendOptions): Promise<Request> {
  const { settings, toolbox } = context;
  const scheme = resolveScheme(toolbox.gateSettings.schemes, trigger.inputs);
  if (scheme?.kind === 'verifier') {
    throw new CommandError(`The scheme "${scheme.verifier.name}" is code that verifies; only its publisher can sign`);
  }
  const sample = sampleOf(scheme?.spec.name);
  const body = options.body === undefined ? sample.body : await readBody(options.body);
  const contentType = options.contentType ?? (options.body === undefined ? sample.contentType : 'application/json');
  const path = `/flows/api/webhook/${trigger.inputs.webhookSlug ?? trigger.flowId}`;
  const target = `${baseUrl(options.to)}${path}`;
  const publicUrl =
    trigger.inputs.webhookPublicUrl ?? (settings.publicUrl === undefined ? target : `${settings.publicUrl}${path}`);
  const deliveryId = options.id ?? randomUUID();
  const plain = {
    ...sample.headers,
    'content-type': contentType,
    ...nonceHeader(trigger, deliveryId),
    ...ownHeaders(options),
  };
  if (scheme === undefined) return { url: target, headers: plain, body };
  const age = integerOption('--age', options.age);
  const signed = signDelivery({
    ...{ spec: scheme.spec, key: keyOf(trigger, scheme.spec, options), body, url: publicUrl, deliveryId, contentType },
    timestampMs: Date.now() - age * 1000,
  });
  const added = signed.url.slice(publicUrl.length);
  return { url: `${target}${added}`, headers: { ...plain, ...signed.headers }, body: signed.body };
}

function nonceHeader({ inputs }: SentTrigger, deliveryId: string): Record<string, string> {
  return inputs.webhookNonceHeader === undefined ? {} : { [inputs.webhookNonceHeader]: deliveryId };
}

function keyOf(trigger: SentTrigger, spec: SignatureSpec, options: SendOptions): string {
  const key = trigger.keys.current ?? trigger.keys.previous;
  if (key === undefined)
    throw new CommandError(`The trigger "${trigger.triggerKey}" has no webhookHmacKey to sign with`);
  if (!options.wrongKey) return key;
  const wrong = randomBytes(32);
  return spec.keyEncoding === 'whsec' ? `whsec_${wrong.toString('base64')}` : wrong.toString('base64');
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
  if (!URL.canParse(to)) throw new CommandError(`--to "${to}": expected an absolute URL such as http://127.0.0.1:3000`);
  return to.replace(/\/+$/, '');
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
  process.stdout.write(`POST ${url}\n${lines.join('\n')}\n\n${body.toString()}\n`);
}

async function post({ url, headers, body }: Request): Promise<void> {
  let response: Response;
  try {
    response = await fetch(url, { method: 'POST', headers, body });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new CommandError(`POST ${url}: ${cause}; is the service running?`);
  }
  process.stdout.write(`${response.status} ${await response.text()}\n`);
  if (!response.ok) process.exitCode = 1;
}
