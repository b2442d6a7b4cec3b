import SqliteDatabase from 'better-sqlite3';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { chainAttacks } from './chain-attacks.ts';
import { newDatabases } from './files.ts';

const newPath = newDatabases();

chainAttacks(async () => {
  const path = newPath();
  return {
    open: (chainKey) => openSqliteStore({ path, chainKey }),
    async write(...statements) {
      const db = new SqliteDatabase(path);
      for (const statement of statements) db.exec(statement);
      db.close();
    },
  };
});
