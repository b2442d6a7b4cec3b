import { Command } from 'commander';
import { CommandError, printJson, reporting, withService } from '../../commands/context.ts';
import { secondOf } from '../../commands/lists.ts';
import { HELP } from '../../commands/part.ts';
import { clientOf, isId, type ServiceClient, type ServiceOptions } from '../../commands/service-client.ts';
import { table } from '../../commands/table.ts';
import { printable } from '../../model/text.ts';
import { print } from '../../telemetry/terminal.ts';
import { failedSteps, type RunOutline, type ServedRun, waitText } from '../runs/command.ts';
import { resultOf, type ServedDelivery } from './served-delivery.ts';

interface WhyOptions extends ServiceOptions {
  readonly json?: true;
}

/** The part of a delivery and its review that this command shows. */
interface DeliveryDetail extends ServedDelivery {
  readonly gateResults: readonly {
    readonly gate: string;
    readonly outcome: string;
    readonly reason: string | null;
    readonly detail: string | null;
  }[];
  readonly hints: readonly string[];
  readonly redeliveredFrom: string | null;
  readonly redeliveredAs: string | null;
  readonly redelivery: { readonly possible: boolean; readonly message: string } | null;
  readonly repeats: { readonly runId: string; readonly deliveryId: string | null } | null;
}

export function whyCommand(): Command {
  const command = new Command('why')
    .helpGroup(HELP.daily)
    .description('Explain a delivery or a run: what became of it, which gate or step failed, what it waits for')
    .argument('<id>', 'id of a delivery (the header Sluice-Delivery of its answer) or of a run')
    .option('--json', 'print the answer of the API');
  return withService(command)
    .addHelpText(
      'after',
      '\nExits with 0 whatever became of it, with 2 if there is no delivery and no run with this id.',
    )
    .action(reporting(why));
}

async function why(id: string, { json, ...options }: WhyOptions): Promise<void> {
  if (!isId(id)) throw new CommandError(`"${id}" is not the id of a delivery or of a run`);
  const client = await clientOf(options);
  const delivery = (await find(client, `/flows/api/webhooks/${id}`, 'gateResults')) as DeliveryDetail | undefined;
  if (delivery !== undefined) {
    if (json) return printJson(delivery);
    const run =
      delivery.runId === null ? undefined : await find(client, `/flows/api/runs/${delivery.runId}/outline`, 'run');
    const isAnswer = delivery.outcome === 'answered' || delivery.runId !== null;
    const answered = isAnswer ? await find(client, `/flows/api/webhooks/${id}/answered`) : undefined;
    const steps = Array.isArray(answered) ? (answered as AnsweredStep[]) : [];
    return print(deliveryText(delivery, { outline: run as RunOutline | undefined, steps }));
  }
  const outline = (await find(client, `/flows/api/runs/${id}/outline`, 'run')) as RunOutline | undefined;
  if (outline === undefined) throw new CommandError(`There is no delivery and no run with the id ${id}`);
  if (json) printJson(outline);
  else print(runText(outline));
}

/** Undefined if the service answers 404. Throws `CommandError` if the answer lacks the member. */
async function find(client: ServiceClient, path: string, member?: string): Promise<unknown> {
  const { status, body } = await client.ask({ method: 'GET', path, accepts: [404] });
  if (status === 404) return undefined;
  if (member !== undefined && !(member in Object(body)))
    throw new CommandError('The answer is not that of a Sluice service');
  return body;
}

interface Consequences {
  readonly outline: RunOutline | undefined;
  readonly steps: readonly AnsweredStep[];
}

/** A step that the delivery answered; none unless a feature lets deliveries answer steps. */
interface AnsweredStep {
  readonly runId: string;
  readonly stepKey: string;
}

function deliveryText(delivery: DeliveryDetail, { outline, steps }: Consequences): string {
  const { id, receivedAt, clientIp, mode, statusCode, detail, gateResults, hints, redelivery } = delivery;
  const gates = gateResults.map((gate) => [gate.gate, gate.outcome, gate.reason ?? '', gate.detail ?? '']);
  const parts = [
    lines([
      `delivery ${id}, received ${secondOf(receivedAt)} from ${clientIp}, mode ${mode}`,
      `answered ${statusCode}, ${resultOf(delivery)}`,
      ...(detail === null || gateResults.some((gate) => gate.detail === detail) ? [] : [`  ${detail}`]),
    ]),
    gates.length === 0 ? '' : table(['GATE', 'OUTCOME', 'REASON', 'DETAIL'], gates),
    lines(steps.map(({ runId, stepKey }) => `answered the step ${stepKey} of the run ${runId}`)),
    lines(hints.map((hint) => `hint: ${hint}`)),
    lines([...relativesOf(delivery), ...(redelivery === null ? [] : [redeliveryText(id, redelivery)])]),
    outline === undefined ? '' : runText(outline),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

/** Joins texts as lines; no text can start another line. */
function lines(texts: readonly string[]): string {
  return texts.map((text) => `${printable(text)}\n`).join('');
}

function relativesOf({ redeliveredFrom, redeliveredAs, repeats }: DeliveryDetail): string[] {
  return [
    ...(redeliveredFrom === null ? [] : [`accepted from the refused delivery ${redeliveredFrom}`]),
    ...(redeliveredAs === null ? [] : [`redelivered since, as ${redeliveredAs}`]),
    ...(repeats === null
      ? []
      : [`repeats ${repeats.deliveryId === null ? 'another' : repeats.deliveryId}, whose run is ${repeats.runId}`]),
  ];
}

function redeliveryText(id: string, { possible, message }: NonNullable<DeliveryDetail['redelivery']>): string {
  if (!possible) return `it cannot be redelivered: ${message}`;
  return `to accept it: sluice redeliver ${id}, with --force if a gate still refuses it`;
}

function runText(outline: RunOutline): string {
  const { run, control, steps } = outline;
  const { id, flowName, flowVersion, revision, triggerKey, startedAt, completedAt, waitingFor } = run;
  const unhandled = failedSteps(outline);
  const failed = steps.flatMap(({ stepKey, status, error }) => {
    if (error === null) return [];
    const end = status === 'Failed' && !unhandled.includes(stepKey) ? ' (a later step handled it)' : '';
    return [`step ${stepKey} failed with ${error.code}: ${error.message}${end}`];
  });
  const ended = completedAt === null ? '' : `, ended ${secondOf(completedAt)}`;
  return lines([
    `run ${id} of ${flowName}, version ${flowVersion}, revision ${revision}`,
    `${run.status}: started ${secondOf(startedAt)} by ${triggerKey}${originOf(run)}${ended}`,
    ...failed,
    ...waitingFor.map((wait) => `step ${waitText(wait)}`),
    ...(control.cancelRequested ? [`cancelled: ${control.cancelReason ?? 'nobody said why'}`] : []),
    ...(control.timeoutAt === null || completedAt !== null ? [] : [`times out ${secondOf(control.timeoutAt)}`]),
    ...(run.status === 'Failed' ? [`to retry what failed: sluice retry ${id}`] : []),
  ]);
}

function originOf({ deliveryId, sourceRunId }: ServedRun): string {
  if (deliveryId !== null) return `, delivery ${deliveryId}`;
  return sourceRunId === null ? '' : `, run ${sourceRunId}`;
}
