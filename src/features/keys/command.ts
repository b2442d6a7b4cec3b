import { Command } from 'commander';
import { restoreDeployed } from '../../commands/check.ts';
import {
  CommandError,
  openContext,
  printJson,
  readCommandSettings,
  reporting,
  withService,
} from '../../commands/context.ts';
import { secondOf } from '../../commands/lists.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { askList, clientOf, findWebhooks, NoAnswerError, type ServiceOptions } from '../../commands/service-client.ts';
import { table } from '../../commands/table.ts';
import { databaseTarget } from '../../config/database.ts';
import type { Settings } from '../../config/settings-schema.ts';
import { maskUrl } from '../../manifest/mask.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import { inspectStore } from '../../store/offline.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { createTriggerTable } from '../../webhooks/triggers.ts';
import { type KeyView, keyView, reportKeys } from './key-report.ts';

interface KeysOptions extends ServiceOptions {
  readonly flow?: string;
  readonly json?: true;
}

function makeKeys(): Command {
  const command = new Command('keys')
    .helpGroup(HELP.history)
    .description('List the keys of webhooks: when each last verified a delivery, how often, and which can be removed')
    .option('--flow <slugOrId>', 'only the webhook with this slug, or those of the flow with this GUID')
    .option('--json', 'print the answer of the API');
  return withService(command)
    .addHelpText('after', '\nWithout --to, and if no service answers, it reads the database of the settings.')
    .action(reporting(keys));
}

async function keys(options: KeysOptions): Promise<void> {
  const settings = await readCommandSettings();
  const listed = await listKeys(options, settings);
  if (options.json) printJson(listed);
  else print(asText(listed));
}

async function listKeys(options: KeysOptions, settings: Settings): Promise<readonly KeyView[]> {
  const { to, flow } = options;
  // A service with these settings listens on any free port.
  if (to === undefined && settings.port === 0) return readKeys(flow, settings);
  try {
    const client = await clientOf(options, settings);
    const body = await askList(client, '/flows/api/keys', { flowId: '', triggerKey: '' });
    if (flow === undefined) return body as KeyView[];
    const webhooks = await findWebhooks(client, flow);
    return (body as KeyView[]).filter(({ flowId, triggerKey }) =>
      webhooks.some((webhook) => webhook.flowId === flowId && webhook.key === triggerKey),
    );
  } catch (error) {
    if (to !== undefined || !(error instanceof NoAnswerError)) throw error;
    return readKeys(flow, settings);
  }
}

/** Reads the figures that the last service stored. */
async function readKeys(flow: string | undefined, settings: Settings): Promise<readonly KeyView[]> {
  const context = await openContext();
  const database = databaseTarget(settings, process.cwd());
  const name = database.kind === 'sqlite' ? database.path : maskUrl(database.url);
  const inspection = await inspectStore(database).catch((error: unknown) => {
    throw new CommandError(`No service answers, and ${error instanceof Error ? error.message : String(error)}`);
  });
  try {
    const { catalog } = await restoreDeployed(inspection, { ...context, database });
    const triggers = createTriggerTable({
      flows: catalog.list(),
      preparer: context.extensions.gates,
      defaultMode: settings.enforcementMode,
    });
    const reports = await reportKeys({ store: inspection, triggers, clock: { now: () => Date.now() } });
    printError(`no service answers; read from the database ${name}\n`);
    const wanted = flow?.toLowerCase();
    const named = triggers
      .list()
      .map(({ trigger }) => trigger)
      .filter(
        ({ flowId, inputs }) => wanted === undefined || [flowId, inputs.webhookSlug?.toLowerCase()].includes(wanted),
      );
    if (wanted !== undefined && named.length === 0) throw new CommandError(`There is no webhook "${flow}"`);
    return reports.filter((report) => named.some((it) => sameTrigger(it, report))).map(keyView);
  } finally {
    await inspection.close();
  }
}

function asText(keys: readonly KeyView[]): string {
  if (keys.length === 0) return 'No webhook has a key.\n';
  const head = ['WEBHOOK', 'ROLE', 'KEY', 'FINGERPRINT', 'LAST VERIFIED', '24 H', 'ALL'];
  const advice = keys.flatMap(({ message }) => (message === null ? [] : [`${message}.\n`]));
  return [table(head, keys.map(row)), ...(advice.length === 0 ? [] : ['\n', ...advice])].join('');
}

function row({ flowName, triggerKey, role, reference, fingerprint, lastVerifiedAt, last24Hours, count }: KeyView) {
  const last = lastVerifiedAt === null ? 'never' : secondOf(lastVerifiedAt);
  const cells = [`${flowName}/${triggerKey}`, role, reference ?? '-', fingerprint ?? 'not shown', last];
  return [...cells, String(last24Hours), String(count)];
}

export const keysCommand: CommandPart = { name: 'keys', commands: [makeKeys] };
