import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import {
  CommandError,
  positive,
  readCommandSettings,
  reporting,
  serviceUrl,
  withService,
} from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import {
  createServiceClient,
  findWebhooks,
  flowIdOf,
  isId,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { time } from '../../commands/time.ts';
import { printable } from '../../model/text.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { type Forwarding, forward, untilAnswered } from './forward.ts';
import { replayCommand } from './replay.ts';

interface ListenOptions extends ServiceOptions {
  readonly flow?: string;
  readonly forward?: string;
  readonly since?: number;
  readonly as?: string;
  readonly count?: number;
  readonly json?: true;
}

function listenCommand(): Command {
  const command = new Command('listen')
    .helpGroup(HELP.daily)
    .description('Show deliveries and their verdicts as they arrive at a running service')
    .argument('[slugOrId]', 'slug of a trigger, or GUID of a flow; default: all webhooks')
    .option('--flow <flow>', 'those of the flow with this id or name alone')
    .option('--forward <url>', 'send accepted deliveries to this URL, such as http://localhost:8080/hook')
    .option('--since <time>', 'where a new consumer begins: 02:00, 30m, 2h, 3d or ISO 8601; default: now', time)
    .option('--as <name>', 'the consumer whose cursor the service keeps; default: your user and machine')
    .option('--count <number>', 'end after this many deliveries', positive)
    .option('--json', 'print each delivery as one line of JSON, as the API shows it');
  return withService(command)
    .addHelpText(
      'after',
      '\nIt reconnects if the service restarts. Deliveries that arrive while it is disconnected are not shown.\n\n' +
        'With --forward none is left out: deliveries that started a run are sent in order, with their original body and ' +
        'headers, from where this consumer stopped, however long ago. While the target does not answer, or answers 429, 502, 503 ' +
        'or 504, the delivery is sent again; every other status is shown and counts as an answer. Idempotency-Key is the id of ' +
        'the delivery, and only one that was answered but not noted, because the command was killed, comes twice. ' +
        'Redacted headers stay redacted. The token needs the scope operate.',
    )
    .action(reporting(listen));
}

const RECONNECT_MS = 1000;

async function listen(given: string | undefined, options: ListenOptions): Promise<void> {
  const settings = await readCommandSettings();
  const url = options.to ?? serviceUrl(settings);
  const client = createServiceClient(url, options, settings);
  if (given !== undefined && options.flow !== undefined) throw new CommandError('give a webhook or --flow, not both');
  const lookUp = async () => {
    const slugOrId = options.flow === undefined ? given : await flowIdOf(client, options.flow);
    return { slugOrId, watched: await findWebhooks(client, slugOrId) };
  };
  // A signal ends the process at once: nothing has begun yet.
  const { slugOrId, watched } =
    options.forward === undefined ? await lookUp() : await untilAnswered(lookUp, new AbortController().signal);
  if (options.forward !== undefined) {
    const { forward: target, since, as, count = Number.POSITIVE_INFINITY, json } = options;
    const subject = slugOrId === undefined ? {} : subjectOf(watched, slugOrId);
    const told = `the deliveries of ${slugOrId ?? 'all webhooks'} at ${url}`;
    return forward(client, { target, since, as, subject, told, count, isJson: json === true });
  }
  if (options.since !== undefined || options.as !== undefined) {
    throw new CommandError('--since and --as belong to --forward; `sluice deliveries` lists what was received');
  }
  let left = options.count ?? Number.POSITIVE_INFINITY;
  let stream = await client.open(STREAM);
  tell(`Listening to ${slugOrId ?? 'all webhooks'} at ${url}; press Ctrl-C to stop`);
  for (;;) {
    try {
      for await (const event of deliveriesIn(stream)) {
        const trigger = watched.find(({ flowId, key }) => flowId === event.flowId && key === event.triggerKey);
        if (trigger === undefined && slugOrId !== undefined) continue;
        print(await shown(client, event, { name: trigger?.name ?? '-', isJson: options.json === true }));
        left -= 1;
        if (left === 0) return;
      }
      tell('the service ended the stream; reconnecting');
    } catch (error) {
      tell(`${error instanceof Error ? error.message : String(error)}; reconnecting`);
    }
    stream = await reopen(client);
    tell('connected again');
  }
}

/** All webhooks of a flow, or the one of a slug. */
function subjectOf(webhooks: Awaited<ReturnType<typeof findWebhooks>>, slugOrId: string): Forwarding['subject'] {
  const [first] = webhooks;
  if (first === undefined) return {};
  return isId(slugOrId) ? { flowId: first.flowId } : { flowId: first.flowId, triggerKey: first.key };
}

const STREAM = '/flows/api/events/stream';

/** Waits for a service that restarts. */
async function reopen(client: ServiceClient): Promise<Response> {
  for (;;) {
    await wait(RECONNECT_MS);
    try {
      return await client.open(STREAM);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
    }
  }
}

/** The stream's data of a delivery. */
interface DeliveryEvent {
  readonly deliveryId: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly runId: string | null;
  readonly result: string;
  readonly reason: string | null;
  readonly receivedAt: string;
}

async function* deliveriesIn({ body }: Response): AsyncGenerator<DeliveryEvent> {
  if (body === null) return;
  let text = '';
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const events = `${text}${piece}`.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const [, data] = /^event: delivery\.received\ndata: (.*)$/m.exec(event) ?? [];
      if (data !== undefined) yield JSON.parse(data) as DeliveryEvent;
    }
  }
}

/** The part of the API's answer about a delivery that is shown. */
interface DeliveryDetail {
  readonly statusCode: number;
  readonly mode: string;
  readonly clientIp: string;
  readonly bodyBytes: number;
  readonly violations: readonly string[];
  readonly detail: string | null;
  readonly hints: readonly string[];
}

const MAX_TRIES = 10;
const TRY_AGAIN_MS = 100;

/** The record of a refused delivery is stored in the background, so it can come a moment after the event. */
async function findDetail(client: ServiceClient, deliveryId: string): Promise<DeliveryDetail | undefined> {
  for (let tries = 1; ; tries += 1) {
    const path = `/flows/api/webhooks/${deliveryId}`;
    const { status, body } = await client.ask({
      method: 'GET',
      path,
      accepts: [404],
      like: { violations: [], hints: [] },
    });
    if (status === 200) return body as DeliveryDetail;
    if (tries === MAX_TRIES) return undefined;
    await wait(TRY_AGAIN_MS);
  }
}

async function shown(
  client: ServiceClient,
  event: DeliveryEvent,
  { name, isJson }: { name: string; isJson: boolean },
): Promise<string> {
  const delivery = await findDetail(client, event.deliveryId);
  if (isJson) return `${JSON.stringify(delivery ?? event)}\n`;
  return `${renderDelivery(event, delivery, name).map(printable).join('\n')}\n`;
}

/** One line for a clean delivery; otherwise also the problems found, and hints. */
function renderDelivery(event: DeliveryEvent, delivery: DeliveryDetail | undefined, name: string): string[] {
  const time = new Date(event.receivedAt).toTimeString().slice(0, 8);
  const {
    statusCode = '',
    mode = '',
    clientIp,
    bodyBytes,
    violations = [],
    detail = null,
    hints = [],
  } = delivery ?? {};
  const from = clientIp === undefined ? '' : `${bodyBytes} bytes from ${clientIp}`;
  const found = violations.join(', ');
  const verdict =
    event.result === 'accepted'
      ? `accepted${found === '' ? '' : `, although ${found} (${mode})`}`
      : (event.reason ?? 'refused');
  const run = event.runId === null ? '' : `run ${event.runId}`;
  const head = [time, name, String(statusCode), verdict, from, run].filter((part) => part !== '').join('  ');
  return [head, ...[...(detail === null ? [] : [detail]), ...hints].map((line) => `          ${line}`)];
}

function tell(line: string): void {
  printError(`${line}\n`);
}

export const forwardingCommand: CommandPart = { name: 'forwarding', commands: [listenCommand, replayCommand] };
