import type { z } from 'zod';
import type { Finding } from '../model/finding.ts';
import type { RunnableManifest } from '../model/manifest.ts';

/**
 * The fields that a feature adds to a manifest, besides triggers and steps. Without the feature, a manifest with one of
 * them is refused. `features/manifest.ts` lists the parts.
 */
export interface ManifestPart {
  readonly name: string;
  readonly fields: {
    readonly [Field in Exclude<keyof RunnableManifest, 'steps'>]?: ManifestField<RunnableManifest[Field]>;
  };
}

export interface ManifestField<Value> {
  readonly schema: z.ZodType<Value>;
  /** Why a manifest that has the field cannot have it so; undefined if it can. */
  mistake?(manifest: Omit<RunnableManifest, 'steps'>): string | undefined;
  /** The effect of a changed value on runs. */
  changed(before: Value, after: Value): FieldChange;
}

/** `safe` unless it names another class. */
export type FieldChange = Pick<Finding, 'rule' | 'message' | 'consequence'> & Partial<Pick<Finding, 'class'>>;
