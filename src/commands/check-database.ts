import { existsSync } from 'node:fs';
import pino from 'pino';
import { databasePath } from '../config/settings.ts';
import type { Settings } from '../config/settings-schema.ts';
import { createDeployer } from '../deploys/deployer.ts';
import { createCatalog } from '../flows/catalog.ts';
import { type Inspection, inspectDatabase } from '../store/sqlite/inspect.ts';
import type { Checked, CheckOptions } from './check.ts';
import { type CommandContext, CommandError, openContext } from './context.ts';

/** Says what a start on the database would do. It is only read, whether or not a service runs on it. */
export async function checkAgainstDatabase(folder: string | undefined, options: CheckOptions): Promise<Checked> {
  const context = await openContext(folder);
  const { flows, issues } = context;
  const path = pathOf(options.against, context.settings);
  const known = { issues, flows: flows.length };
  if (path === undefined)
    return { ...known, outcomes: [], notInFolder: [], against: 'nothing: no database is there yet' };
  const inspection = inspect(path);
  try {
    return { ...known, ...(await plan(inspection, context, options)), against: `the database ${path}` };
  } finally {
    inspection.close();
  }
}

/** Undefined where the database of the settings has not been made yet: then nothing is deployed. */
function pathOf(against: string | undefined, settings: Settings): string | undefined {
  if (against === undefined) {
    const path = databasePath(settings, process.cwd());
    return existsSync(path) ? path : undefined;
  }
  const [, path = ''] = /^sqlite:(.+)$/i.exec(against) ?? [];
  if (path !== '' && path !== ':memory:') return path;
  throw new CommandError(`--against "${against}": expected the URL of a service, or sqlite:PATH`);
}

function inspect(path: string): Inspection {
  try {
    return inspectDatabase(path);
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : String(error));
  }
}

/** Plans with the parts of the service itself, on what the database holds. */
async function plan(inspection: Inspection, context: CommandContext, { allow }: CheckOptions) {
  const { flows, issues, toolbox, settings } = context;
  // A manifest that cannot be loaded is not gone.
  const isWholeFolder = issues.every(({ severity }) => severity !== 'error');
  const clock = { now: () => Date.now(), monotonic: () => performance.now() };
  const refuse = () => Promise.reject(new Error('a database that is only looked at takes no writes'));
  const store = {
    findFlow: async (id: string) => inspection.findFlow(id),
    findRevision: async (id: string, revision: number) => inspection.findRevision(id, revision),
    readLiveFlow: async (id: string) => inspection.readLiveFlow(id),
    findSuperseded: async (manifest: Parameters<Inspection['findSuperseded']>[0]) =>
      inspection.findSuperseded(manifest),
    listDeployed: async () => inspection.listDeployed(),
    ...{ applyDeploys: refuse, deployFlow: refuse, setFlowEnabled: refuse, setFlowDraining: refuse },
  };
  const catalog = createCatalog(store, clock);
  const deployer = createDeployer({
    ...{ store, catalog, clock, rules: toolbox.rules, logger: pino({ level: 'silent' }) },
    retentionDays: settings.runRetentionDays,
    manifestsWin: settings.manifestsWin,
    onDeployed: () => {},
  });
  toolbox.useFolder(flows);
  await deployer.restore(flows);
  const outcomes = await deployer.plan(flows, { allow, isWholeFolder, source: 'folder' });
  const ids = new Set(flows.map(({ manifest }) => manifest.id));
  const gone = catalog.list().filter(({ record }) => isWholeFolder && !ids.has(record.id));
  return { outcomes, notInFolder: gone.map(({ record }) => ({ id: record.id, name: record.name })) };
}
