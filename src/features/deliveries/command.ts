import { Command } from 'commander';
import { printJson, reporting, withService } from '../../commands/context.ts';
import { listOrNothing, type PagingOptions, secondOf, withPaging } from '../../commands/lists.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import {
  askList,
  clientOf,
  flowIdOf,
  listFlows,
  listPath,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { type SpanOptions, withSpan } from '../../commands/time.ts';
import { print } from '../../telemetry/terminal.ts';
import { resultOf, type ServedDelivery } from './served-delivery.ts';
import { whyCommand } from './why.ts';

interface DeliveriesOptions extends ServiceOptions, SpanOptions, PagingOptions {
  readonly flow?: string;
  readonly reason?: string;
  readonly rejected?: true;
  readonly accepted?: true;
  readonly held?: true;
  readonly outcome?: string;
  readonly search?: string;
  readonly key?: string;
}

/** Lists the deliveries that a running service stored. */
function makeDeliveries(): Command {
  const command = new Command('deliveries')
    .helpGroup(HELP.daily)
    .description('List stored deliveries, newest first, and why they were refused')
    .option('--flow <flow>', 'to the flow with this id or name')
    .option('--reason <code>', 'with this reason, such as signature_mismatch')
    .option('--rejected', 'those that failed a gate or were refused')
    .option('--accepted', 'all others')
    .option('--held', 'those whose runs start when their flow does again')
    .option('--outcome <name>', 'with this outcome: duplicate, filtered, coalesced, answered, unevaluated or givenUp')
    .option('--search <text>', 'part of an id, an address, a scheme, a reason, a detail or a search key')
    .option('--key <name:value>', 'with this search key, such as order:SO-1010');
  return withService(withPaging(withSpan(command))).action(reporting(listDeliveries));
}

async function listDeliveries(options: DeliveriesOptions): Promise<void> {
  const client = await clientOf(options);
  const { flow, reason, rejected, accepted, held, outcome, search, key, since, until, take } = options;
  const flowId = flow === undefined ? undefined : await flowIdOf(client, flow);
  const flags = { rejectedOnly: rejected, acceptedOnly: accepted, heldOnly: held };
  const filter = { flowId, reason, ...flags, outcome, search, searchKeys: key, since, until, take };
  const deliveries = await askList(client, listPath('/flows/api/webhooks/recent', filter), { id: '', receivedAt: '' });
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

export const deliveriesCommand: CommandPart = { name: 'deliveries', commands: [whyCommand, makeDeliveries] };
