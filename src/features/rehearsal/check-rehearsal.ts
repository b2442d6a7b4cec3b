import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { type CheckOptions, check, isUrl, type SentManifest } from '../../commands/check.ts';
import { CommandError, positive, reporting } from '../../commands/context.ts';
import type { Conclusion } from '../../commands/render-outcomes.ts';
import type { ServiceClient } from '../../commands/service-client.ts';
import { canonicalKeys } from '../../manifest/canonical-keys.ts';
import { isObject, readJson } from '../../manifest/json-text.ts';
import { NOT_UTF8, utf8Text } from '../../manifest/read-file.ts';
import { isJsonObject, type Json, parseJson } from '../../model/json.ts';
import { type FlowRehearsal, isOfContents } from './tally.ts';

interface RehearseOptions extends CheckOptions {
  /** Number of deliveries of each flow. */
  readonly rehearse?: number;
  readonly answers?: string;
}

/** Adds `--rehearse` to `check`. */
export function addRehearsal(command: Command): void {
  command
    .option(
      '--rehearse <count>',
      'with the URL of a service: run so many of the newest deliveries of each flow through the deployed and the new ' +
        'revision, with recorded answers, and show what differs',
      positive,
    )
    .option('--answers <file>', 'with --rehearse: JSON with answers for calls that no run has an answer to')
    .addHelpText('after', 'With --rehearse it is at least 1 if a delivery would go another way.')
    .action(reporting(checkRehearsed));
}

async function checkRehearsed(
  folder: string | undefined,
  { rehearse: deliveries, answers: file, ...options }: RehearseOptions,
): Promise<void> {
  if (deliveries === undefined) {
    if (file !== undefined) throw new CommandError('--answers needs --rehearse');
    return check(folder, options);
  }
  if (!isUrl(options.against))
    throw new CommandError('--rehearse needs --against with the URL of a service: it has the deliveries');
  const given = file === undefined ? {} : await readAnswers(file);
  await check(folder, options, async (client, manifests) => {
    const answers = byFlowId(given, manifests);
    const rehearsals = await askRehearsal(
      client,
      manifests.map(({ text }) => text),
      { deliveries, answers },
    );
    return {
      json: { rehearsals },
      text: rehearsals.map(renderRehearsal),
      // More people can read the summary than may read deliveries.
      summary: rehearsals.map(withoutContents).map(renderRehearsal),
      conclude: (deploy) => concludeRehearsal(rehearsals, deploy),
    };
  });
}

function byFlowId(answers: GivenAnswers, manifests: readonly SentManifest[]): GivenAnswers {
  const ids = new Map(manifests.map(({ id, text }) => [nameIn(text), id]));
  return Object.fromEntries(
    Object.entries(answers).map(([flow, table]) => [ids.get(flow) ?? flow.toLowerCase(), table]),
  );
}

function nameIn(text: string): string | undefined {
  const { name } = canonicalKeys(readJson(text).value).value as { name?: unknown };
  return typeof name === 'string' ? name : undefined;
}

/** Answer of the service. */
type RehearsedFlow = FlowRehearsal;

/** By id or name of the flow, then by path of the step. */
type GivenAnswers = Readonly<Record<string, Json>>;

/** Asks a service to rehearse a deploy of these manifests (JSON texts). */
async function askRehearsal(
  client: ServiceClient,
  manifests: readonly string[],
  { deliveries, answers }: { readonly deliveries: number; readonly answers: GivenAnswers },
): Promise<readonly RehearsedFlow[]> {
  const body = `{"deliveries":${deliveries},"answers":${JSON.stringify(answers)},"manifests":[${manifests.join(',')}]}`;
  const answer = (await client.ask({ method: 'POST', path: '/flows/api/flows/rehearse', body })).body;
  if (isObject(answer) && Array.isArray(answer.flows)) return answer.flows as RehearsedFlow[];
  throw new CommandError('The answer is not the result of a rehearsal; is it a Sluice service of this release?');
}

async function readAnswers(file: string): Promise<GivenAnswers> {
  const bytes = await readFile(file).catch((error: Error) => {
    throw new CommandError(`--answers ${file}: cannot be read: ${error.message}`);
  });
  const text = utf8Text(bytes);
  if (text === undefined) throw new CommandError(`--answers ${file}: ${NOT_UTF8}`);
  const answers = parsed(text, file);
  if (isJsonObject(answers)) return answers;
  throw new CommandError(`--answers ${file}: expected an object: by flow, by path of the step, a list of answers`);
}

function parsed(text: string, file: string): Json {
  try {
    return parseJson(text);
  } catch (error) {
    throw new CommandError(`--answers ${file}: is not JSON: ${(error as Error).message}`);
  }
}

/** Returns the worse result: of the deploy or of the rehearsal. */
function concludeRehearsal(rehearsals: readonly RehearsedFlow[], deploy: Conclusion): Conclusion {
  const differing = sum(rehearsals, ({ differing: count }) => count);
  const isStopped = rehearsals.some((each) => each.isStopped);
  const code = deploy.code === 0 && (differing > 0 || isStopped) ? 1 : deploy.code;
  const deliveries = sum(rehearsals, ({ deliveries: count }) => count);
  const found =
    rehearsals.length === 0
      ? 'Rehearsed: no deployed flow changes.'
      : `Rehearsed: ${countOf(deliveries, 'delivery', 'deliveries')}, ${differing} would go another way.`;
  const line =
    code === deploy.code ? deploy.line : deploy.line.replace(/Exit code .*$/s, `Exit code ${code}: ${OTHER_WAY}.`);
  return { code, line: `${found} ${line}` };
}

const OTHER_WAY = 'a deploy changes what deliveries lead to';

/** What readers without access to deliveries may see. */
function withoutContents({ groups, ...rehearsal }: RehearsedFlow): RehearsedFlow {
  return {
    ...rehearsal,
    groups: groups.map((group) => ({ ...group, what: isOfContents(group) ? [] : group.what, examples: [] })),
  };
}

const MOST_NAMED = 3;
const MOST_GROUPS = 20;

/** A report for reviewers, in the form of a deploy's report. */
function renderRehearsal(rehearsal: RehearsedFlow): string {
  const { name, flowId, revision, deliveries, same, differing, groups, skipped, unknown, isStopped } = rehearsal;
  if (deliveries === 0 && !isStopped) return `Rehearsal of ${name} (${flowId}): no delivery of it is stored.`;
  const rest = deliveries - same - differing;
  const head = `Rehearsal of ${name} (${flowId}), compared with revision ${revision}`;
  const counts = `${countOf(deliveries, 'delivery', 'deliveries')}: ${same} as before, ${differing} differ${rest === 0 ? '' : `, ${rest} not compared`}`;
  return [
    head,
    '='.repeat(Math.min(head.length, 110)),
    `  ${counts}.`,
    ...(isStopped ? ['  The time was over before all of them were looked at; rehearse fewer.'] : []),
    ...groups.slice(0, MOST_GROUPS).flatMap(renderGroup),
    ...(groups.length > MOST_GROUPS ? ['', `  ${groups.length - MOST_GROUPS} more groups: see --json.`] : []),
    ...listed('NOT COMPARED', skipped),
    ...listed('NOT KNOWN (--answers gives answers to steps)', unknown),
  ].join('\n');
}

function renderGroup({ kind, at, what, count, deliveryIds, examples }: RehearsedFlow['groups'][number]): string[] {
  const title = `${TITLES[kind]}${kind === 'gates' || kind === 'end' ? '' : ` ${at}`}: ${what.join(', ') || 'differs'}`;
  const [example] = examples;
  return [
    '',
    `  ${title} (${countOf(count, 'delivery', 'deliveries')})`,
    ...(example === undefined ? [] : renderExample(example)),
    ...(count === 1 && example !== undefined ? [] : [`    all: ${named(deliveryIds)}`]),
  ];
}

const TITLES = {
  gates: 'GATES',
  step: 'STEP',
  request: 'REQUEST of',
  wait: 'WAIT of',
  end: 'END',
} as const satisfies Record<RehearsedFlow['groups'][number]['kind'], string>;

type Example = RehearsedFlow['groups'][number]['examples'][number];

const MOST_DIFFERENCES = 4;

/** Shows its first differences; the others mostly follow from these. */
function renderExample({ deliveryId, differences }: Example): string[] {
  const left = differences.length - MOST_DIFFERENCES;
  return [
    `    ${deliveryId}`,
    ...differences.slice(0, MOST_DIFFERENCES).flatMap(renderDifference),
    ...(left > 0 ? [`      and ${left} more: see --json`] : []),
  ];
}

function renderDifference({ kind, at, changes }: Example['differences'][number]): string[] {
  const place = kind === 'gates' || kind === 'end' ? kind : `${kind} ${at}`;
  return changes.flatMap(({ path, before, after }) => {
    const label = `${place}${path === '' ? '' : ` ${path}`}: `;
    return [
      ...(before === undefined ? [] : [`    - ${label}${short(before)}`]),
      ...(after === undefined ? [] : [`    + ${label}${short(after)}`]),
    ];
  });
}

const MAX_VALUE = 400;

function short(value: Json): string {
  const text = JSON.stringify(value);
  return text.length <= MAX_VALUE ? text : `${text.slice(0, MAX_VALUE - 3)}...`;
}

function listed(title: string, counted: RehearsedFlow['skipped']): string[] {
  if (counted.length === 0) return [];
  return [
    '',
    `  ${title}`,
    ...counted.map(({ what, count, deliveryIds }) => `  - ${what} (${count}): ${named(deliveryIds, count)}`),
  ];
}

function named(deliveryIds: readonly string[], count = deliveryIds.length): string {
  const shown = deliveryIds.slice(0, MOST_NAMED);
  return [shown.join(', '), ...(count > shown.length ? [`${count - shown.length} more`] : [])].join(', ');
}

const countOf = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`;

function sum(rehearsals: readonly RehearsedFlow[], read: (each: RehearsedFlow) => number): number {
  return rehearsals.reduce((total, each) => total + read(each), 0);
}
