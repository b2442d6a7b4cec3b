import { findReplaced } from '../manifest/changes/index.ts';
import type { LoadedFlow } from '../manifest/load.ts';
import type { Catalog } from './catalog.ts';
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
  /** Flows that want a slug which another has come last: the other may be about to give it up. */
  inOrder(): readonly LoadedFlow[];
  /** The flow that this one stands in the place of, under another id. */
  replacedBy(flow: LoadedFlow): ReplacedFlow | undefined;
  /** Why the flow cannot have the slugs that it wants; undefined where it can. A flow that it replaces is in no way. */
  clashOf(flow: LoadedFlow, replacedId: string | undefined): string | undefined;
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
    inOrder() {
      const late = new Set(
        flows.filter((flow) => sharedName(flow, takenNames(othersOf(flow).map(({ loaded }) => loaded)))),
      );
      return [...flows.filter((flow) => !late.has(flow)), ...late];
    },
    replacedBy(flow) {
      const found = findReplaced({ next: identityOf(flow), deployed, goneIds });
      const name = deployed.find(({ id }) => id === found?.id)?.name;
      return found && name !== undefined ? { ...found, name } : undefined;
    },
    clashOf(flow, replacedId) {
      for (const { record, loaded } of othersOf(flow)) {
        const shared = record.id === replacedId ? undefined : sharedName(flow, takenNames([loaded]));
        if (shared === undefined) continue;
        return `The slug "${shared}" is the one of the deployed flow "${record.name}" (${record.id}); take it away there, or disable that flow, first.`;
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
