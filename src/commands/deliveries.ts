import { Command } from 'commander';
import { print } from '../telemetry/terminal.ts';
import { printJson, reporting, withService } from './context.ts';
import { doToEach } from './each.ts';
import { listOrNothing, type PagingOptions, secondOf, withPaging } from './lists.ts';
import { askList, clientOf, flowIdOf, listFlows, listPath, type ServiceOptions } from './service-client.ts';
import { type SpanOptions, withSpan } from './time.ts';

interface DeliveriesOptions extends ServiceOptions, SpanOptions, PagingOptions {
  readonly flow?: string;
  readonly reason?: string;
  readonly rejected?: true;
  readonly accepted?: true;
  readonly held?: true;
  readonly search?: string;
  readonly key?: string;
}

/** A delivery, as far as commands show it. */
export interface ServedDelivery {
  readonly id: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly receivedAt: string;
  readonly clientIp: string;
  readonly mode: string;
  readonly statusCode: number;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly runId: string | null;
  readonly held: boolean;
}

/** The deliveries that a running service stored. */
export function deliveriesCommand(): Command {
  const command = new Command('deliveries')
    .description('List stored deliveries, newest first, and why they were refused')
    .option('--flow <flow>', 'to the flow with this id or name')
    .option('--reason <code>', 'with this reason, such as signature_mismatch')
    .option('--rejected', 'those that failed a gate or were refused')
    .option('--accepted', 'all others')
    .option('--held', 'those whose runs start when their flow does again')
    .option('--search <text>', 'part of an id, an address, a scheme, a reason, a detail or a search key')
    .option('--key <name:value>', 'with this search key, such as order:SO-1010');
  return withService(withPaging(withSpan(command))).action(reporting(listDeliveries));
}

async function listDeliveries(options: DeliveriesOptions): Promise<void> {
  const client = await clientOf(options);
  const { flow, reason, rejected, accepted, held, search, key, since, until, take } = options;
  const flowId = flow === undefined ? undefined : await flowIdOf(client, flow);
  const flags = { rejectedOnly: rejected, acceptedOnly: accepted, heldOnly: held };
  const filter = { flowId, reason, ...flags, search, searchKeys: key, since, until, take };
  const deliveries = await askList(client, listPath('/flows/api/webhooks/recent', filter));
  if (options.json) return printJson(deliveries);
  const names = new Map((await listFlows(client)).map(({ id, name }) => [id, name]));
  const rows = (deliveries as ServedDelivery[]).map((each) => [
    each.id,
    secondOf(each.receivedAt),
    String(each.statusCode),
    names.get(each.flowId ?? '') ?? each.flowId ?? '-',
    resultOf(each),
  ]);
  print(listOrNothing(['DELIVERY', 'RECEIVED', 'CODE', 'FLOW', 'RESULT'], rows, take));
}

interface RedeliverOptions extends ServiceOptions {
  readonly force?: true;
  readonly reason?: string;
  readonly json?: true;
}

/** What became of a delivery that was judged again. */
interface Redelivery {
  readonly outcome: 'accepted' | 'accepted before' | 'refused' | 'not possible';
  /** Why a gate or the flow refused it. */
  readonly reason: string | null;
  readonly message: string;
  readonly runId: string | null;
}

export function redeliverCommand(): Command {
  const command = new Command('redeliver')
    .description('Judge refused deliveries again, as of the time they arrived, and accept those that pass')
    .argument('<deliveries...>', 'ids of deliveries')
    .option('--force', 'accept them even if gates fail; their records say so')
    .option('--reason <text>', 'why; kept in the activity')
    .option('--json', 'print what became of each');
  return withService(command)
    .addHelpText(
      'after',
      '\nExits with 0 if all are accepted, now or before, with 1 if one was not, with 2 if there is no such delivery or the\n' +
        'service did not answer. `sluice replay` sends a delivery to another service.',
    )
    .action(reporting(redeliver));
}

async function redeliver(ids: readonly string[], { force, reason, ...options }: RedeliverOptions): Promise<void> {
  const client = await clientOf(options);
  const said = JSON.stringify({ force, reason });
  const redeliverOne = async (id: string) => {
    const { body } = await client.ask({ method: 'POST', path: `/flows/api/webhooks/${id}/redeliver`, body: said });
    return redelivered(body as Redelivery);
  };
  await doToEach(ids, redeliverOne, options);
}

function redelivered({ outcome, reason, message, runId }: Redelivery) {
  const isDone = outcome === 'accepted' || outcome === 'accepted before';
  if (isDone) return { isDone, message: `${message}${runId === null ? '' : `; its run is ${runId}`}` };
  return { isDone, message: reason === null ? message : `${reason}: ${message}` };
}

/** What became of a delivery, in a few words. */
export function resultOf({ statusCode, runId, held, reason, mode }: ServedDelivery): string {
  const why = reason === null ? '' : `: ${reason}`;
  if (statusCode >= 400) return `refused${why}`;
  if (held) return `held${why}`;
  if (runId === null) return `no run${why}`;
  return reason === null ? 'accepted' : `accepted in ${mode} mode${why}`;
}
