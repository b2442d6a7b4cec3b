import type { Catalog } from '../flows/catalog.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import { findReplaced } from './changes/index.ts';
import type { DeployOptions } from './deployer.ts';
import { takenNames } from './webhook-names.ts';

/** A deployed flow that another one stands in the place of. */
export interface ReplacedFlow {
  readonly id: string;
  readonly name: string;
  readonly because: 'slug' | 'name';
}

/** What the flows of one deploy mean for those that are deployed. */
export interface DeployFolder {
  /** The flow that this one stands in the place of, under another id. */
  replacedBy(flow: LoadedFlow): ReplacedFlow | undefined;
  /**
   * Why the flow cannot have the slugs that it wants once those of `deploying` are deployed; undefined where it can.
   * Ignores the flow it replaces.
   */
  clashOf(flow: LoadedFlow, deploying: readonly LoadedFlow[], replacedId: string | undefined): string | undefined;
}

export function folderOf(
  flows: readonly LoadedFlow[],
  catalog: Pick<Catalog, 'list'>,
  { isWholeFolder }: Pick<DeployOptions, 'isWholeFolder'>,
): DeployFolder {
  const ids = new Set(flows.map(({ manifest }) => manifest.id));
  const before = catalog.list();
  const deployed = before.map(({ loaded }) => identityOf(loaded));
  // Of one manifest alone it cannot be told which others are gone, but a disabled flow may be there to be replaced.
  const gone = before.filter(({ record }) => !ids.has(record.id) && (isWholeFolder || !record.isEnabled));
  const goneIds = new Set(gone.map(({ record }) => record.id));
  const othersOf = (flow: LoadedFlow) => catalog.list().filter(({ record }) => record.id !== flow.manifest.id);
  return {
    replacedBy(flow) {
      const found = findReplaced({ next: identityOf(flow), deployed, goneIds });
      const name = deployed.find(({ id }) => id === found?.id)?.name;
      return found && name !== undefined ? { ...found, name } : undefined;
    },
    clashOf(flow, deploying, replacedId) {
      for (const { record, loaded } of othersOf(flow)) {
        const next = deploying.find(({ manifest }) => manifest.id === record.id) ?? loaded;
        const shared = record.id === replacedId ? undefined : sharedName(flow, takenNames([next]));
        if (shared === undefined) continue;
        return (
          `The slug "${shared}" belongs to the deployed flow "${record.name}" (${record.id}); remove it there, ` +
          'before or in the same deploy, or disable that flow first.'
        );
      }
      return undefined;
    },
  };
}

function identityOf({ manifest: { id, name }, webhooks }: LoadedFlow) {
  return { id, name, slugs: webhooks.flatMap(({ inputs }) => inputs.webhookSlug ?? []) };
}

function sharedName(flow: LoadedFlow, names: ReadonlySet<string>): string | undefined {
  return [...takenNames([flow])].find((name) => names.has(name));
}
