interface Applied {
  readonly version: number;
  readonly name: string;
}

/** Throws if a database has a different migration under one of our numbers: a build between two releases made it. */
export function checkHistory(applied: readonly Applied[], own: readonly Applied[]): void {
  for (const { version, name } of own) {
    const other = applied.find((migration) => migration.version === version);
    if (other === undefined || other.name === name) continue;
    throw new Error(
      `its schema is that of a build between two releases (version ${version} is "${other.name}" there, "${name}" here); use the build that made it, or another database`,
    );
  }
}
