import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { printable } from '../model/text.ts';
import { print, printError } from '../telemetry/terminal.ts';
import { CommandError, positive, readCommandSettings, reporting, serviceUrl, withService } from './context.ts';
import { createServiceClient, findWebhooks, type ServiceClient, type ServiceOptions } from './service-client.ts';

interface ListenOptions extends ServiceOptions {
  readonly count?: number;
  readonly json?: true;
}

export function listenCommand(): Command {
  const command = new Command('listen')
    .description('Show deliveries and their verdicts as they arrive at a running service')
    .argument('[slugOrId]', 'slug of a trigger, or GUID of a flow; default: all webhooks')
    .option('--count <number>', 'end after this many deliveries', positive)
    .option('--json', 'print each delivery as one line of JSON, as the API shows it');
  return withService(command)
    .addHelpText(
      'after',
      '\nIt reconnects if the service restarts. Deliveries that arrive while it is disconnected are not shown.',
    )
    .action(reporting(listen));
}

const RECONNECT_MS = 1000;

async function listen(slugOrId: string | undefined, options: ListenOptions): Promise<void> {
  const settings = await readCommandSettings();
  const url = options.to ?? serviceUrl(settings);
  const client = createServiceClient(url, options, settings);
  const watched = await findWebhooks(client, slugOrId);
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

/** What the stream tells of a delivery. */
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

/** What the API says of a delivery, as far as it is shown. */
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

/** The record of a refused delivery is stored in the background, so it may come a moment after the event. */
async function findDetail(client: ServiceClient, deliveryId: string): Promise<DeliveryDetail | undefined> {
  for (let tries = 1; ; tries += 1) {
    const path = `/flows/api/webhooks/${deliveryId}`;
    const { status, body } = await client.ask({ method: 'GET', path, accepts: [404] });
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

/** One line for a clean delivery; for another one also what was found, and hints. */
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
