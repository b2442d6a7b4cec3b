import { Command } from 'commander';
import {
  CommandError,
  readCommandSettings,
  reporting,
  serviceUrl,
  TO,
  withCredentials,
} from '../../commands/context.ts';
import { HELP } from '../../commands/part.ts';
import { type Credentials, createServiceClient, listFlows, type ServiceClient } from '../../commands/service-client.ts';
import { isObject } from '../../manifest/json-text.ts';
import { isMasked, maskCredentials, maskRefusedUrl, maskUrl } from '../../manifest/mask.ts';
import { printable } from '../../model/text.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { REDACTED } from '../../webhooks/headers.ts';
import { OF_THE_CONNECTION, post } from './post.ts';

interface ReplayOptions extends Credentials {
  readonly from?: string;
  readonly to?: string;
  readonly dryRun?: true;
}

export function replayCommand(): Command {
  const command = new Command('replay')
    .helpGroup(HELP.act)
    .description(
      'Send a stored delivery again, byte for byte, for example to a service on this machine; only reads the source',
    )
    .argument('<deliveryId>', 'id of the delivery at the source')
    .option('--from <url>', 'the service that received it; default: host and port of the settings')
    .option('--to <url>', `${TO}; with a path, any URL that accepts a POST`)
    .option('--dry-run', 'print the request without sending it');
  return withCredentials(command)
    .addHelpText(
      'after',
      '\nThe credentials are for the source. The delivery keeps its original timestamp and signature: the receiver refuses it ' +
        'if its tolerance has passed, if it already accepted it, or if it has another key or URL. Exits with 0 if the ' +
        'answer is a 2xx, with 1 if not, with 2 if nothing could be sent.',
    )
    .action(reporting(replay));
}

async function replay(deliveryId: string, options: ReplayOptions): Promise<void> {
  const settings = await readCommandSettings();
  const client = createServiceClient(options.from ?? serviceUrl(settings), options, settings);
  const delivery = await findDelivery(client, deliveryId);
  const body = Buffer.from(await (await client.open(`/flows/api/webhooks/${deliveryId}/body`)).arrayBuffer());
  const url = await targetOf(delivery, options.to ?? serviceUrl(settings), client);
  const { headers, left } = sentHeaders(delivery.headers);
  const request = { url, headers, body };
  tell(
    `received ${delivery.receivedAt}, answered ${delivery.statusCode}${delivery.reason === null ? '' : ` ${delivery.reason}`}`,
  );
  if (left.length > 0) tell(`not sent, because the source does not store the values: ${left.join(', ')}`);
  if (options.dryRun) {
    const lines = Object.entries(headers).map(([name, value]) => printable(`${name}: ${value}`));
    print(
      `POST ${maskCredentials(url)}\n${lines.join('\n')}\n\n${body.toString().split('\n').map(printable).join('\n')}\n`,
    );
    return;
  }
  const answer = await post(request).catch((error: unknown) => {
    throw new CommandError(
      `POST ${maskUrl(url)}: ${error instanceof Error ? error.message : String(error)}; is the service running?`,
    );
  });
  print(`${answer.status} ${printable(answer.text)}\n`);
  if (answer.status >= 200 && answer.status < 300) return;
  process.exitCode = 1;
  const why = WHY[reasonIn(answer.text)];
  if (why !== undefined) tell(why);
}

/** Why another service may refuse a delivery that its source accepted, by the reason in the answer. */
const WHY: Readonly<Record<string, string>> = {
  timestamp_skew:
    'The signed timestamp is too old by now: raise webhookReplayToleranceSeconds of the receiving trigger, or set it to 0.',
  nonce_replayed: 'The receiving service already accepted this delivery, and accepts each only once.',
  signature_mismatch:
    'The receiving trigger needs the key of the source. If the scheme signs the URL, it also needs the webhookPublicUrl of the source.',
  signature_missing: 'The source does not store this header, or the receiving trigger has another scheme.',
  key_not_configured: 'The receiving trigger has no key; it needs the one of the source.',
  ip_not_allowed:
    'The request now comes from this machine, not from the publisher: remove the address list from the receiving trigger.',
  unknown_flow: 'The receiving service has no webhook of this name: deploy the manifest there, or give --to a path.',
};

function reasonIn(answer: string): string {
  try {
    const body: unknown = JSON.parse(answer);
    return isObject(body) && typeof body.reason === 'string' ? body.reason : '';
  } catch {
    return '';
  }
}

/** The part of the API's answer about a delivery that is sent again. */
interface StoredDelivery {
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly receivedAt: string;
  readonly statusCode: number;
  readonly reason: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly requestUrl: string | null;
}

async function findDelivery(client: ServiceClient, deliveryId: string): Promise<StoredDelivery> {
  if (!/^[0-9a-f-]{36}$/i.test(deliveryId)) throw new CommandError(`"${deliveryId}" is not the id of a delivery`);
  const { body } = await client.ask({
    method: 'GET',
    path: `/flows/api/webhooks/${deliveryId}`,
    like: { headers: {} },
  });
  return body as StoredDelivery;
}

/** The given address if it has a path, else the address of the same webhook at that service. */
async function targetOf({ flowId, triggerKey, requestUrl }: StoredDelivery, to: string, client: ServiceClient) {
  if (!/^https?:\/\//i.test(to) || !URL.canParse(to)) {
    throw new CommandError(`--to "${maskRefusedUrl(to)}": expected an absolute URL such as http://127.0.0.1:3000`);
  }
  const url = new URL(to);
  if (url.pathname === '/') {
    const triggers = (await listFlows(client)).find(({ id }) => id === flowId)?.triggers ?? [];
    const name = triggers.find(({ key }) => key === triggerKey)?.slug ?? flowId;
    if (name === null)
      throw new CommandError('The delivery was sent to a webhook that does not exist; give --to a path');
    url.pathname = `/flows/api/webhook/${encodeURIComponent(name)}`;
  }
  // Schemes that sign the URL sign its query too.
  const query = requestUrl === null || isMasked(requestUrl) ? '' : (/\?.*$/.exec(requestUrl)?.[0] ?? '');
  return `${url.href}${url.search === '' ? query : ''}`;
}

function sentHeaders(stored: Readonly<Record<string, string>>) {
  const names = Object.keys(stored).filter((name) => !OF_THE_CONNECTION.has(name));
  // A long value was cut when it was stored.
  const left = names.filter((name) => stored[name] === REDACTED || stored[name]?.endsWith('…') === true);
  const headers = names
    .filter((name) => !left.includes(name))
    .map((name): [string, string] => [name, stored[name] ?? '']);
  return { headers: Object.fromEntries(headers), left };
}

function tell(line: string): void {
  printError(`${printable(line)}\n`);
}
